import HTTPServer
package import JSON

extension AccountEvent {
    private static let names: Set<String> = [
        "user_id", "type", "reason", "app_key", "jti", "forged", "callback_url",
    ]

    /// Reads the body of `POST /sandbox/account-events`.
    ///
    /// - Throws: ``Problem`` that names the field.
    init(bodyOf request: Request) throws(Problem) {
        let input = try ControlInput(bodyOf: request, known: Self.names)
        self.init(userID: try input.requiredInteger("user_id", in: 1...Int64.max))
        if let type = try input.string("type") { self.type = type }
        reason = try input.string("reason")
        appKey = try input.string("app_key")
        tokenID = try input.string("jti")
        isForged = try input.bool("forged") ?? false
        callbackURL = try input.string("callback_url")
    }
}

extension AccountEventOutcome: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.object {
            $0.member("sent", isSent)
            $0.member("status", status)
            $0.member("jti", tokenID)
            $0.member("err", error)
            $0.member("reason", reason)
        }
    }
}
