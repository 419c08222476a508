internal import HTTPClient
internal import HTTPTypes
internal import JSON

/// A user who has unlinked the app, as Kakao tells it (Kakao Login, "Unlink webhook").
package struct UnlinkNotice: Sendable {
    /// How the app has chosen to be called, in the console.
    package enum Method: String, Sendable, CaseIterable {
        case get = "GET"
        case post = "POST"
    }

    package var method = Method.get
    package let userID: Int64
    /// Why. Kakao's list of reasons grows: any text will do.
    package var referrerType = "UNLINK_FROM_APPS"
    /// The push server's base URL; `nil` for the one of the settings.
    package var callbackURL: String?

    package init(userID: Int64) {
        self.userID = userID
    }
}

/// What became of a notice.
package struct UnlinkOutcome: Sendable, Equatable {
    /// Whether Kakao called. It calls once and never again.
    package var isSent: Bool
    /// What the push server answered; `nil` if it did not, within 3 seconds.
    package var status: Int?
    /// Why it was not called, or why there is no status.
    package var reason: String?
}

/// Calls the push server when a user unlinks the app: once, and never again.
struct UnlinkCall: Sendable {
    private static let path = "/kakao/unlink"
    private static let timeout = Duration.seconds(3)

    let client: HTTPClient
    let adminKey: String
    let appID: Int

    /// - Parameter baseURL: The push server's, if the notice does not name another.
    func send(_ notice: UnlinkNotice, baseURL: String?) async -> UnlinkOutcome {
        guard let baseURL = notice.callbackURL ?? baseURL else {
            return UnlinkOutcome(isSent: false, reason: "The sandbox was not told the push server's URL.")
        }
        var form = FormBody()
        form.append("app_id", String(appID))
        form.append("user_id", String(notice.userID))
        form.append("referrer_type", notice.referrerType)
        let base = baseURL.hasSuffix("/") ? String(baseURL.dropLast()) : baseURL
        var request = HTTPClientRequest(url: base + Self.path, totalTimeout: Self.timeout)
        request.headerFields = [.authorization: "KakaoAK \(adminKey)", .userAgent: "KakaoOpenAPI/1.0"]
        switch notice.method {
        case .get:
            request.url += "?" + String(decoding: form.bytes, as: UTF8.self)
        case .post:
            request.method = .post
            request.headerFields[.contentType] = FormBody.contentType
            request.body = form.bytes
        }
        do throws(HTTPClientError) {
            return UnlinkOutcome(isSent: true, status: try await client.send(request).status)
        } catch {
            return UnlinkOutcome(isSent: true, reason: error.description)
        }
    }
}
