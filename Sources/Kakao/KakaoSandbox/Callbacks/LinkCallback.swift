import HTTPClient
import HTTPTypes
import JSON
import Locking
import Net

/// Calls the push server when a shared message has arrived (Kakao Link, success callback), ``LinkShare/times`` times and
/// without retries.
struct LinkCallback: Sendable {
    let sender: CallbackSender
    private let state = Locked(LinkCounts())

    var counts: LinkCounts { state.withLock { $0 } }

    /// Shares a message, and calls the push server if Kakao would.
    func share(_ share: LinkShare) async -> CallbackOutcome {
        guard !share.arguments.isEmpty || share.raw != nil else {
            return CallbackOutcome(
                isSent: false,
                reason: "Kakao sends no callback for a message without custom arguments."
            )
        }
        let resourceID = share.resourceID ?? Self.identifier()
        guard let request = request(for: share, resourceID: resourceID) else { return .unknownURL }
        if share.delay > .zero { try? await Task.sleep(for: share.delay) }
        var outcome = CallbackOutcome(isSent: true, id: resourceID)
        for _ in 0..<share.times {
            state.withLock { $0.sent += 1 }
            guard let response = await sender.send(request, &outcome) else { continue }
            if (200..<300).contains(response.status) { state.withLock { $0.accepted += 1 } }
        }
        return outcome
    }

    private func request(for share: LinkShare, resourceID: String) -> HTTPClientRequest? {
        let path = "/kakao/link/callback"
        guard var request = sender.request(path, at: share.callbackURL, timeout: share.timeout) else { return nil }
        request.headerFields[.kakaoResourceID] = resourceID
        let parameters = share.parameters(hashChatID: share.hashChatID ?? Self.identifier())
        let content =
            if let raw = share.raw {
                Array(raw.utf8)
            } else {
                share.method == .postJSON ? JSONValue.object(parameters).bytes() : form(parameters).bytes
            }
        switch share.method {
        case .get: request.setQuery(content)
        case .postQuery:
            request.setQuery(content)
            request.method = .post
        case .postForm: request.setForm(content)
        case .postJSON:
            request.method = .post
            request.headerFields[.contentType] = "application/json;charset=UTF-8"
            request.body = content
        }
        return request
    }

    /// Encodes the parameters as a query or form: strings unchanged, other values as JSON text.
    private func form(_ parameters: JSONObject) -> FormBody {
        var form = FormBody()
        for (name, value) in parameters.members {
            form.append(name, value.string ?? value.description)
        }
        return form
    }

    /// Returns 24 random letters and digits, the length of Kakao's `Rvy1c2dkzBAZ5hGD3rqYbxvr`.
    static func identifier() -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
        return String((0..<24).map { _ in alphabet[Int.random(in: alphabet.indices)] })
    }
}

extension HTTPField.Name {
    /// The id of a callback, by which a receiver recognizes a duplicate.
    static let kakaoResourceID: HTTPField.Name = {
        let name = "X-Kakao-Resource-ID"
        guard let field = HTTPField.Name(name) else { preconditionFailure("\(name) is the name of a header field") }
        return field
    }()
}

/// The numbers of callbacks of shared messages.
package struct LinkCounts: Sendable, Equatable {
    /// Sent to the push server.
    package var sent = 0
    /// Answered with 2xx.
    package var accepted = 0
}
