internal import HTTPServer
internal import HTTPTypes
internal import JSON

extension Problem {
    /// A field that is missing or holds what it may not.
    ///
    /// - Parameters:
    ///   - field: Its name as the caller knows it.
    ///   - allowed: What it may hold, as it reads after "must be".
    static func field(_ field: String, _ allowed: String) -> Problem {
        Problem(
            .badRequest,
            kind: "invalid-field",
            "\(field) must be \(allowed).",
            members: ["field": .string(field), "allowed": .string(allowed)]
        )
    }
}
