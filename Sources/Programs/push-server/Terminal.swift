import Glibc

/// Unbuffered reading and writing of standard input, output and error, which need not be terminals.
enum Terminal {
    /// Whether standard output is a terminal.
    static var isOutput: Bool { isatty(STDOUT_FILENO) == 1 }

    /// Whether a person can be asked: standard input and standard error are terminals.
    static var isInteractive: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    /// The columns of the terminal on standard output; 80 if they are unknown.
    static var columns: Int {
        var size = winsize()
        let result = ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size)
        return result == 0 && size.ws_col > 0 ? Int(size.ws_col) : 80
    }

    /// Writes a line to standard output.
    static func writeLine(_ line: String) {
        write(line + "\n", to: STDOUT_FILENO)
    }

    /// Overwrites the line drawn last on a terminal.
    ///
    /// - Parameter line: At most ``columns`` - 1 columns wide, since a wrapped line cannot be overwritten.
    static func redraw(_ line: String) {
        // Returns to the first column, writes the line and erases the rest of the old one (ECMA-48: EL).
        write("\r\(line)\u{1B}[K", to: STDOUT_FILENO)
    }

    /// Writes a line to standard error.
    static func writeError(_ line: String) {
        write(line + "\n", to: STDERR_FILENO)
    }

    /// Asks a yes-or-no question and returns whether the answer is yes. Blocks until a line is entered.
    static func confirms(_ question: String) -> Bool {
        write("\(question) [y/N] ", to: STDERR_FILENO)
        return ["y", "yes"].contains(readLine()?.lowercased() ?? "")
    }

    /// Returns the bytes of standard input up to its end. Blocks until then.
    ///
    /// - Parameter limit: The maximum number of bytes to read. The rest is left unread.
    static func readInput(limit: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 * 1024)
        while bytes.count < limit {
            let count = read(STDIN_FILENO, &piece, min(piece.count, limit - bytes.count))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            bytes += piece[..<count]
        }
        return bytes
    }

    /// Writes bytes to standard output.
    static func write(_ bytes: [UInt8]) {
        write(bytes, to: STDOUT_FILENO)
    }

    private static func write(_ text: String, to descriptor: Int32) {
        write(Array(text.utf8), to: descriptor)
    }

    private static func write(_ bytes: [UInt8], to descriptor: Int32) {
        var written = 0
        while written < bytes.count {
            let count = bytes[written...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return }
            written += count
        }
    }
}
