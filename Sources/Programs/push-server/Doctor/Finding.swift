/// The result of one check of a ``Doctor``.
package struct Finding: Sendable {
    package enum State: String, Sendable {
        /// Correct.
        case ok
        /// It works but should be fixed.
        case warning
        /// It does not work or is not safe.
        case wrong
        /// Not checked; the text gives the reason.
        case skipped
    }

    package let state: State
    /// The subject of the check: the setting's name if it is a setting.
    package let subject: String
    /// The result in one line, with the remedy for a problem. Contains no secret.
    package let text: String

    package init(_ state: State, _ subject: String, _ text: String) {
        self.state = state
        self.subject = subject
        self.text = text
    }
}
