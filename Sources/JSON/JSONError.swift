/// Why a text is not the JSON that was asked for, and where.
///
/// The message says what was expected and never quotes the text, so that it is safe to show and to log.
package struct JSONError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The byte at which reading stopped, counted from 0; the text's length if it ended too early.
    package let offset: Int
    /// What was expected: "expected ',' or '}'".
    package let message: String

    package init(offset: Int, message: String) {
        self.offset = offset
        self.message = message
    }

    /// "expected ',' or '}' at byte 17".
    package var description: String {
        "\(message) at byte \(offset)"
    }
}
