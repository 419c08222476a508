import HTTPClient
import HTTPTypes
import JSON
import Locking
import Net

/// Calls the push server when a shared message has arrived (Kakao Link, success callback), ``LinkShare/times`` times and
/// without retries.
final class LinkCallback: Sendable {
    private struct State {
        var baseURL: String?
        var counts = LinkCounts()
    }

    private static let path = "/kakao/link/callback"

    private let client: HTTPClient
    private let adminKey: String
    private let state: Locked<State>

    init(client: HTTPClient, settings: KakaoSandboxSettings) {
        self.client = client
        adminKey = settings.adminKey
        state = Locked(State(baseURL: settings.callbackURL))
    }

    var counts: LinkCounts { state.withLock { $0.counts } }

    /// The push server's base URL, if it is known.
    var baseURL: String? { state.withLock { $0.baseURL } }

    func setBaseURL(_ url: String) {
        state.withLock { $0.baseURL = url }
    }

    /// Shares a message, and calls the push server if Kakao would.
    func share(_ share: LinkShare) async -> LinkShareOutcome {
        guard !share.arguments.isEmpty else {
            return LinkShareOutcome(
                isSent: false,
                reason: "Kakao sends no callback for a message without custom arguments."
            )
        }
        guard let baseURL = share.callbackURL ?? baseURL else {
            return LinkShareOutcome(
                isSent: false,
                reason: "The push server's URL is unknown. Set callback_url or --callback-url."
            )
        }
        let resourceID = share.resourceID ?? Self.identifier()
        let request = request(for: share, resourceID: resourceID, baseURL: baseURL)
        if share.delay > .zero { try? await Task.sleep(for: share.delay) }
        var outcome = LinkShareOutcome(isSent: true, resourceID: resourceID)
        for _ in 0..<share.times { await send(request, &outcome) }
        return outcome
    }

    private func send(_ request: HTTPClientRequest, _ outcome: inout LinkShareOutcome) async {
        state.withLock { $0.counts.sent += 1 }
        (outcome.status, outcome.reason) = (nil, nil)
        do throws(HTTPClientError) {
            let status = try await client.send(request).status
            outcome.status = status
            state.withLock { if (200..<300).contains(status) { $0.counts.accepted += 1 } }
        } catch {
            outcome.reason = error.description
        }
    }

    private func request(for share: LinkShare, resourceID: String, baseURL: String) -> HTTPClientRequest {
        let parameters = share.parameters(hashChatID: share.hashChatID ?? Self.identifier())
        let base = baseURL.hasSuffix("/") ? String(baseURL.dropLast()) : baseURL
        var request = HTTPClientRequest(url: base + Self.path, totalTimeout: share.timeout)
        request.headerFields = [.authorization: "KakaoAK \(adminKey)", .userAgent: "KakaoOpenAPI/1.0"]
        request.headerFields[.kakaoResourceID] = resourceID
        switch share.method {
        case .get:
            request.url += "?" + String(decoding: form(parameters), as: UTF8.self)
        case .postJSON:
            request.method = .post
            request.headerFields[.contentType] = "application/json;charset=UTF-8"
            request.body = JSONValue.object(parameters).bytes()
        case .postForm:
            request.method = .post
            request.headerFields[.contentType] = FormBody.contentType
            request.body = form(parameters)
        }
        return request
    }

    /// Encodes the parameters as a query or form: strings unchanged, other values as JSON text.
    private func form(_ parameters: JSONObject) -> [UInt8] {
        var form = FormBody()
        for (name, value) in parameters.members {
            form.append(name, value.string ?? value.description)
        }
        return form.bytes
    }

    /// Returns 24 random letters and digits, the length of Kakao's `Rvy1c2dkzBAZ5hGD3rqYbxvr`.
    private static func identifier() -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".unicodeScalars)
        var text = String.UnicodeScalarView()
        for _ in 0..<24 { text.append(alphabet[Int.random(in: alphabet.indices)]) }
        return String(text)
    }
}

extension HTTPField.Name {
    /// The id of a callback, by which a receiver recognizes a duplicate.
    static let kakaoResourceID = known("X-Kakao-Resource-ID")

    /// Returns a field name; the process traps if `name` is invalid.
    private static func known(_ name: String) -> HTTPField.Name {
        guard let name = HTTPField.Name(name) else { preconditionFailure("Invalid header field name: \(name)") }
        return name
    }
}

/// The numbers of callbacks of shared messages.
package struct LinkCounts: Sendable, Equatable {
    /// Sent to the push server.
    package var sent = 0
    /// Answered with 2xx.
    package var accepted = 0
}
