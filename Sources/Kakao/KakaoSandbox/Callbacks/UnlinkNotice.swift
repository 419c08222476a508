import HTTPClient
import HTTPTypes
import JSON
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
    /// The push server's base URL; `nil` for the one in the settings.
    package var callbackURL: String?
    /// The time limit for the push server's response. Kakao waits for 3 seconds.
    package var timeout = Duration.seconds(3)

    package init(userID: Int64) {
        self.userID = userID
    }
}

/// The result of sending a notice.
package struct UnlinkOutcome: Sendable, Equatable {
    /// Whether the push server was called. Kakao does not retry.
    package var isSent: Bool
    /// The HTTP status of the push server's response; `nil` if there was none in time.
    package var status: Int?
    /// The reason why the push server was not called, or why there is no status.
    package var reason: String?
}

/// Calls the push server once when a user unlinks the app, without retries.
struct UnlinkCall: Sendable {
    private static let path = "/kakao/unlink"

    let client: HTTPClient
    let adminKey: String
    let appID: Int

    /// Sends a notice to the push server once.
    ///
    /// - Parameter baseURL: The push server's base URL, unless the notice has one of its own.
    func send(_ notice: UnlinkNotice, baseURL: String?) async -> UnlinkOutcome {
        guard let baseURL = notice.callbackURL ?? baseURL else {
            return UnlinkOutcome(
                isSent: false,
                reason: "The push server's URL is unknown. Set callback_url or --callback-url."
            )
        }
        var form = FormBody()
        form.append("app_id", String(appID))
        form.append("user_id", String(notice.userID))
        form.append("referrer_type", notice.referrerType)
        let base = baseURL.hasSuffix("/") ? String(baseURL.dropLast()) : baseURL
        var request = HTTPClientRequest(url: base + Self.path, totalTimeout: notice.timeout)
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
