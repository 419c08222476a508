import HTTPServer
package import JSON

extension UnlinkNotice {
    /// Reads the body of `POST /sandbox/unlink`.
    ///
    /// - Throws: ``Problem`` that names the field.
    init(bodyOf request: Request) throws(Problem) {
        let input = try ControlInput(bodyOf: request, known: ["user_id", "method", "referrer_type", "callback_url"])
        self.init(userID: try input.requiredInteger("user_id", in: 1...Int64.max))
        if let method: Method = try input.choice("method") { self.method = method }
        if let referrerType = try input.string("referrer_type") { self.referrerType = referrerType }
        callbackURL = try input.string("callback_url")
    }
}

extension UnlinkOutcome: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.object {
            $0.member("sent", isSent)
            $0.member("status", status)
            $0.member("reason", reason)
        }
    }
}
