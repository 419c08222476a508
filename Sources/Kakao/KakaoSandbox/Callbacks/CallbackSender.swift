import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import Locking
import Net

/// The push server as Kakao calls it back: its address, and calls to it without retries.
final class CallbackSender: Sendable {
    private let client: HTTPClient
    private let adminKey: String
    private let baseURL: Locked<String?>

    init(client: HTTPClient, settings: KakaoSandboxSettings) {
        self.client = client
        adminKey = settings.adminKey
        baseURL = Locked(settings.callbackURL)
    }

    func setBaseURL(_ url: String) {
        baseURL.withLock { $0 = url }
    }

    /// Returns a request without a body; `nil` if the push server's URL is unknown.
    ///
    /// - Parameters:
    ///   - callbackURL: The push server's base URL, unless it is that of the settings.
    ///   - timeout: The time limit for the response.
    func request(_ path: String, at callbackURL: String?, timeout: Duration) -> HTTPClientRequest? {
        guard let base = callbackURL ?? baseURL.withLock({ $0 }) else { return nil }
        let url = (base.hasSuffix("/") ? String(base.dropLast()) : base) + path
        return HTTPClientRequest(
            url: url,
            headerFields: [.authorization: "KakaoAK \(adminKey)", .userAgent: "KakaoOpenAPI/1.0"],
            totalTimeout: timeout
        )
    }

    /// Sends a request once, and records its result.
    ///
    /// - Returns: The response; `nil` if there was none in time.
    @discardableResult
    func send(_ request: HTTPClientRequest, _ outcome: inout CallbackOutcome) async -> HTTPClientResponse? {
        (outcome.status, outcome.reason) = (nil, nil)
        do throws(HTTPClientError) {
            let response = try await client.send(request)
            outcome.status = response.status
            return response
        } catch {
            outcome.reason = error.description
            return nil
        }
    }
}

extension HTTPClientRequest {
    /// Adds the query of a GET.
    mutating func setQuery(_ form: [UInt8]) {
        url += "?" + String(decoding: form, as: UTF8.self)
    }

    /// Adds the body of a POST.
    mutating func setForm(_ form: [UInt8]) {
        method = .post
        headerFields[.contentType] = FormBody.contentType
        body = form
    }
}

/// The result of a call to the push server.
package struct CallbackOutcome: Sendable, Equatable {
    /// Whether the push server was called. Kakao does not retry.
    package var isSent: Bool
    /// The HTTP status of the push server's last response; `nil` if there was none in time.
    package var status: Int?
    /// The id by which the push server recognizes a duplicate: `X-Kakao-Resource-ID` of the callback of a shared message,
    /// `jti` of an account event. `nil` if the push server was not called.
    package var id: String?
    /// `err` of the response to an account event, if it has one.
    package var error: String?
    /// The reason why the push server was not called, or why there is no status.
    package var reason: String?

    static let unknownURL = CallbackOutcome(
        isSent: false,
        reason: "The push server's URL is unknown. Set callback_url or --callback-url."
    )

    /// Returns the response of a control.
    ///
    /// - Parameter members: The members that the outcomes of one kind of call have.
    func response(with members: [(name: String, value: String?)] = []) -> Response {
        .json { json in
            json.member("sent", isSent)
            json.member("status", status)
            for (name, value) in members { json.member(name, value) }
            json.member("reason", reason)
        }
    }
}
