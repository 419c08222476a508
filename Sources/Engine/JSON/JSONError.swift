/// A JSON parsing error: what is wrong, and where.
///
/// The message never quotes the text, so that it is safe to show and to log.
package struct JSONError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The offset in bytes at which parsing failed, counted from 0; the text's length if it ended too early.
    package let offset: Int
    /// A description of the error: "expected ',' or '}'".
    package let message: String

    package init(offset: Int, message: String) {
        self.offset = offset
        self.message = message
    }

    /// The message and the offset: "expected ',' or '}' at byte 17".
    package var description: String {
        "\(message) at byte \(offset)"
    }
}
