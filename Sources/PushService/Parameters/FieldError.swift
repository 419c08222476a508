internal import HTTPServer
internal import HTTPTypes
internal import JSON

extension Problem {
    /// Returns the problem of a field that is missing or has an invalid value.
    ///
    /// - Parameters:
    ///   - field: The field's name as the caller knows it.
    ///   - allowed: The allowed value, in words that follow "must be".
    static func field(_ field: String, _ allowed: String) -> Problem {
        Problem(
            .badRequest,
            kind: "invalid-field",
            "\(field) must be \(allowed).",
            members: ["field": .string(field), "allowed": .string(allowed)]
        )
    }
}
