import CLibpq
import EventLoop

// The data of a COPY (libpq manual, "Functions Associated with the COPY Command").
extension PostgresConnection {
    /// Sends a piece of data. Completes `promise` when the socket has accepted all of it.
    func write(_ piece: [UInt8], to copy: PostgresCopy, _ promise: Promise<PostgresRows?>) {
        guard copy.wait(promise) else { return }
        copy.append(piece)
        sendData(of: copy)
    }

    /// Ends the data, complete or not. Completes `promise` with the server's response.
    ///
    /// - Parameter failure: The reason for which the server is to abort the statement; `nil` if the data is complete.
    func end(_ copy: PostgresCopy, failure: String?, _ promise: Promise<PostgresRows?>) {
        guard copy.wait(promise) else { return }
        guard endData(of: copy, failure: failure), flush() else { return closeSoon(connectionError()) }
        watchServer()
        // An error may have arrived long ago. libpq keeps it until it is asked for results.
        readAnswers()
    }

    /// Sends as much data as the socket accepts now.
    func sendData(of copy: PostgresCopy) {
        // libpq accepts any amount of data and buffers the excess, so its buffer is emptied first.
        while true {
            let remains = PQflush(handle)
            guard remains >= 0 else { return closeLostConnectionSoon() }
            guard remains == 0 else { break }
            guard let taken = copy.withNextSlice(put) else {
                if let registration { loop.setInterest(.read, of: registration) }
                return copy.proceed()
            }
            guard taken >= 0 else { return closeLostConnectionSoon() }
            copy.blockedSince = loop.now
            guard taken == 1 else { break }
            copy.advance()
        }
        if let registration { loop.setInterest([.read, .write], of: registration) }
        watchServer()
    }

    /// Returns 1 if libpq accepted the bytes, 0 if it has no room now, -1 for an error.
    private func put(_ bytes: UnsafeRawBufferPointer) -> Int32 {
        PQputCopyData(handle, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), Int32(bytes.count))
    }

    /// Closes the lost connection after the current call, since the caller may be in the middle of something.
    private func closeLostConnectionSoon() {
        loop.schedule(after: .zero) { self.assumeIsolated { $0.closeAfterLastAnswers() } }
    }

    /// Ends the data, so that libpq waits for the result from now on. Returns whether it does.
    func endData(of copy: PostgresCopy, failure: String?) -> Bool {
        copy.dropData()
        guard PQputCopyEnd(handle, failure) == 1 else { return false }
        answers.resume(at: loop.now)
        phase = .script
        return true
    }
}
