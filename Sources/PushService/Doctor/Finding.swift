/// What one check of a ``Doctor`` has found out.
package struct Finding: Sendable {
    package enum State: String, Sendable {
        /// As it should be.
        case ok
        /// It works, and had better be mended.
        case warning
        /// It does not work, or is not safe.
        case wrong
        /// Not looked at; the text says why.
        case skipped
    }

    package let state: State
    /// What was looked at: a setting's name, where it is one.
    package let subject: String
    /// What was found, in one line, and how to mend it. Holds no secret.
    package let text: String

    package init(_ state: State, _ subject: String, _ text: String) {
        self.state = state
        self.subject = subject
        self.text = text
    }
}
