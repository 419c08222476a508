/// The result of one check of a ``Doctor``.
struct Finding: Sendable {
    enum State: String, Sendable {
        /// Correct.
        case ok
        /// It works but should be fixed.
        case warning
        /// It does not work or is not safe.
        case wrong
        /// Not checked; the text gives the reason.
        case skipped
    }

    /// The subject of the check: the setting's name if it is a setting.
    let subject: String
    let state: State
    /// The result in one line, with the remedy for a problem. Contains no secret.
    let text: String

    init(_ subject: String, _ verdict: Verdict) {
        self.subject = subject
        state = verdict.state
        text = verdict.text
    }
}

/// A finding without its subject, as a check returns it.
struct Verdict: Sendable {
    let state: Finding.State
    let text: String

    static func ok(_ text: String) -> Verdict { Verdict(state: .ok, text: text) }
    static func warning(_ text: String) -> Verdict { Verdict(state: .warning, text: text) }
    static func wrong(_ text: String) -> Verdict { Verdict(state: .wrong, text: text) }
    static func skipped(_ text: String) -> Verdict { Verdict(state: .skipped, text: text) }
}
