/// Why a private PostgreSQL could not be started. Its text is for whoever typed the command.
package struct PrivatePostgresError: Error, Sendable, CustomStringConvertible {
    package let message: String
    /// The last lines that the program in question printed.
    package let output: [String]

    init(_ message: String, output: [String] = []) {
        self.message = message
        self.output = output
    }

    package var description: String {
        ([message] + output).joined(separator: "\n  ")
    }
}
