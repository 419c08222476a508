import ArgumentParser
import Glibc
import SystemPackage

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
        write("\(line)\n".utf8, to: .standardOutput)
    }

    /// Writes rows to standard output, with aligned columns.
    static func writeTable(_ rows: [[String]]) {
        for line in Text.table(rows) { writeLine(line) }
    }

    /// Overwrites the line drawn last on a terminal.
    ///
    /// - Parameter line: At most ``columns`` - 1 columns wide, since a wrapped line cannot be overwritten.
    static func redraw(_ line: String) {
        // Returns to the first column, writes the line and erases the rest of the old one (ECMA-48: EL).
        write("\r\(line)\u{1B}[K".utf8, to: .standardOutput)
    }

    /// Writes a line to standard error.
    static func writeError(_ line: String) {
        write("\(line)\n".utf8, to: .standardError)
    }

    /// Asks a yes-or-no question. Blocks until a line is entered.
    ///
    /// - Parameter refusal: The sentence to print if the answer is not yes.
    /// - Throws: `ExitCode` if the answer is not yes.
    static func confirm(_ question: String, orPrint refusal: String) throws {
        write("\(question) [y/N] ".utf8, to: .standardError)
        guard ["y", "yes"].contains(readLine()?.lowercased() ?? "") else {
            writeError(refusal)
            throw ExitCode.failure
        }
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
    ///
    /// - Throws: `Errno` if they are not all written: the disk is full.
    static func write(_ bytes: [UInt8]) throws {
        try FileDescriptor.standardOutput.writeAll(bytes)
    }

    private static func write(_ bytes: some Sequence<UInt8>, to descriptor: FileDescriptor) {
        // A reader that is gone is no reason to fail.
        _ = try? descriptor.writeAll(bytes)
    }
}
