internal import CLibpq
internal import EventLoop

// The data of a COPY (libpq manual, "Functions Associated with the COPY Command").
extension PostgresConnection {
    /// Sends a piece of data. `promise` is answered when the socket has taken all of it.
    func write(_ piece: [UInt8], to copy: PostgresCopy, _ promise: Promise<PostgresRows?>) {
        guard copy.wait(promise) else { return }
        copy.append(piece)
        sendData(of: copy)
    }

    /// Says that the data is complete, or that it never will be. `promise` is answered with what the server says then.
    ///
    /// - Parameter failure: Why the server is to give the statement up.
    func end(_ copy: PostgresCopy, failure: String?, _ promise: Promise<PostgresRows?>) {
        guard copy.wait(promise) else { return }
        guard endData(of: copy, failure: failure), flush() else { return closeSoon(connectionError()) }
        watchServer()
        // A refusal may have come long ago, and libpq keeps it until it is asked.
        readAnswers()
    }

    /// Sends as much as the socket takes now.
    func sendData(of copy: PostgresCopy) {
        // libpq would take any amount at any time and keep what the socket does not: it is asked to send first.
        while true {
            let remains = PQflush(handle)
            guard remains >= 0 else { return lose() }
            guard remains == 0 else { break }
            guard let taken = copy.withNextSlice(put) else {
                if let registration { loop.setInterest(.read, of: registration) }
                return copy.proceed()
            }
            guard taken >= 0 else { return lose() }
            copy.blockedSince = loop.now
            guard taken == 1 else { break }
            copy.takeSlice()
        }
        if let registration { loop.setInterest([.read, .write], of: registration) }
        watchServer()
    }

    /// 1 for taken, 0 for no room now, -1 for an error.
    private func put(_ bytes: UnsafeRawBufferPointer) -> Int32 {
        PQputCopyData(handle, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), Int32(bytes.count))
    }

    /// Not at once: the caller may be in the middle of something.
    private func lose() {
        loop.schedule(after: .zero) { self.assumeIsolated { $0.closeAfterLastAnswers() } }
    }

    /// Has libpq wait for the answer from now on. Returns whether it does.
    func endData(of copy: PostgresCopy, failure: String?) -> Bool {
        copy.dropData()
        guard PQputCopyEnd(handle, failure) == 1 else { return false }
        answers.resume(at: loop.now)
        phase = .script
        return true
    }
}
