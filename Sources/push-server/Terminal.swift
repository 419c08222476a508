internal import Glibc

/// What a command writes to, line by line and at once, whatever it is.
enum Terminal {
    /// Whether standard output is a terminal.
    static var isOutput: Bool { isatty(STDOUT_FILENO) == 1 }

    /// Whether somebody is there to be asked: standard input and standard error are terminals.
    static var isInteractive: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    /// The columns of the terminal that is standard output; 80 when it does not say.
    static var columns: Int {
        var size = winsize()
        let result = ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size)
        return result == 0 && size.ws_col > 0 ? Int(size.ws_col) : 80
    }

    /// Writes a line to standard output.
    static func writeLine(_ line: String) {
        write(line + "\n", to: STDOUT_FILENO)
    }

    /// Writes a line over the one that was drawn last, on a terminal.
    ///
    /// - Parameter line: No wider than ``columns`` less 1: a line that wraps cannot be drawn over.
    static func redraw(_ line: String) {
        // Back to the first column, the line, and the rest of the old one erased (ECMA-48: EL).
        write("\r\(line)\u{1B}[K", to: STDOUT_FILENO)
    }

    /// Writes a line to standard error.
    static func writeError(_ line: String) {
        write(line + "\n", to: STDERR_FILENO)
    }

    /// Asks, and returns whether the answer was yes. Blocks until there is one.
    static func confirms(_ question: String) -> Bool {
        write("\(question) [y/N] ", to: STDERR_FILENO)
        return ["y", "yes"].contains(readLine()?.lowercased() ?? "")
    }

    /// Everything of standard input, until it ends. Blocks until then.
    ///
    /// - Parameter limit: Bytes that are taken; what comes after is left.
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

    private static func write(_ text: String, to descriptor: Int32) {
        let bytes = Array(text.utf8)
        var written = 0
        while written < bytes.count {
            let count = bytes[written...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return }
            written += count
        }
    }
}
