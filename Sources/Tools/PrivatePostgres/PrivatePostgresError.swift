/// The reason why a private PostgreSQL could not be started. Its text is shown to the user of the command.
package struct PrivatePostgresError: Error, Sendable, CustomStringConvertible {
    package let message: String
    /// The last lines that the failed program printed.
    package let output: [String]

    init(_ message: String, output: [String] = []) {
        self.message = message
        self.output = output
    }

    package var description: String {
        ([message] + output).joined(separator: "\n  ")
    }
}
