import HTTPServer
import Net

/// Kakao's notice that a user has unlinked the app (Kakao Login, "Unlink webhook").
package struct UnlinkNotice: Sendable {
    /// The method of the callback, which the app's developer chooses in Kakao's console.
    package enum Method: String, Sendable, CaseIterable {
        case get = "GET"
        case post = "POST"
    }

    package var method = Method.get
    package let userID: Int64
    /// The reason. Any text is valid, because Kakao's list of reasons grows.
    package var referrerType = "UNLINK_FROM_APPS"
    /// The query or the form that is sent in place of the parameters, whatever it is; `nil` for a complete notice.
    package var raw: String?
    /// The push server's base URL; `nil` for the one in the settings.
    package var callbackURL: String?
    /// The time limit for the push server's response. Kakao waits for 3 seconds.
    package var timeout = Duration.seconds(3)

    package init(userID: Int64) {
        self.userID = userID
    }

    /// Reads the body of `POST /sandbox/unlink`.
    ///
    /// - Throws: ``Problem`` that names the field.
    init(bodyOf request: Request) throws(Problem) {
        let input = try ControlInput(
            bodyOf: request,
            known: ["user_id", "method", "referrer_type", "raw", "callback_url"]
        )
        self.init(userID: try input.requiredInteger("user_id", in: 1...Int64.max))
        if let method: Method = try input.choice("method") { self.method = method }
        if let referrerType = try input.string("referrer_type") { self.referrerType = referrerType }
        raw = try input.string("raw")
        callbackURL = try input.string("callback_url")
    }
}

/// Calls the push server once when a user unlinks the app, without retries.
struct UnlinkCall: Sendable {
    let sender: CallbackSender
    let appID: Int

    /// Sends a notice to the push server once.
    func send(_ notice: UnlinkNotice) async -> CallbackOutcome {
        guard var request = sender.request("/kakao/unlink", at: notice.callbackURL, timeout: notice.timeout) else {
            return .unknownURL
        }
        var form = FormBody()
        form.append("app_id", String(appID))
        form.append("user_id", String(notice.userID))
        form.append("referrer_type", notice.referrerType)
        let bytes = notice.raw.map { Array($0.utf8) } ?? form.bytes
        switch notice.method {
        case .get: request.setQuery(bytes)
        case .post: request.setForm(bytes)
        }
        var outcome = CallbackOutcome(isSent: true)
        await sender.send(request, &outcome)
        return outcome
    }
}
