/// Server scripts that several tests use.
enum Script {
    /// Responds to each request with its path.
    static let echo: @Sendable (RawConnection) -> Void = { connection in
        while let request = connection.readRequest() {
            let words = request.head.split(separator: " ")
            connection.answer(words.count > 1 ? String(words[1]) : "")
        }
    }

    /// Responds to each request with the same bytes.
    static func answering(_ text: String) -> @Sendable (RawConnection) -> Void {
        { connection in
            while connection.readRequest() != nil { connection.write(text) }
        }
    }

    /// Responds to one request with the given bytes and closes.
    static func answeringOnce(_ text: String) -> @Sendable (RawConnection) -> Void {
        { connection in
            if connection.readRequest() != nil { connection.write(text) }
        }
    }

    /// Reads input and never responds.
    static let silence: @Sendable (RawConnection) -> Void = { connection in
        connection.waitForEnd()
    }
}
