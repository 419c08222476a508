import EventLoop
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import KakaoAPI

/// The outcome of a request to the endpoint: the label `outcome`.
enum WebhookOutcome: String, CaseIterable, Sendable {
    /// A status of 2xx.
    case delivered
    /// Another status. Redirects are not followed.
    case rejected
    /// No response in time, or an invalid one.
    case unanswered
    /// No connection, or a status by which the endpoint, or a gateway before it, asks for patience: 429, 502, 503, 504.
    case unavailable
    /// The endpoint has ended: 410.
    case gone
    /// The server stopped before the response, or was itself stopped for longer than a request may take.
    case abandoned
}

/// An attempt to deliver a webhook.
struct WebhookAttempt: Sendable {
    let outcome: WebhookOutcome
    let status: Int?
    /// The first characters of the response, or the error, for the operator.
    let text: String
    /// The time that the endpoint asks to wait.
    var retryAfter: Duration?
    let duration: Duration

    /// What is wrong, for the operator; `nil` if nothing is.
    var error: String? {
        guard outcome != .delivered else { return nil }
        return status.map { "HTTP \($0)\(text.isEmpty ? "" : ": \(text)")" } ?? text
    }
}

/// The client of the endpoints.
struct WebhookSender: Sendable {
    /// The number of characters of a response that are shown.
    private static let shownCharacters = 200
    private static let id = HTTPField.Name.unvalidated("webhook-id")
    private static let timestamp = HTTPField.Name.unvalidated("webhook-timestamp")
    private static let signature = HTTPField.Name.unvalidated("webhook-signature")

    /// The settings of the client: the system's certificates, and no more of a response than is needed.
    static var clientSettings: HTTPClientSettings {
        var settings = HTTPClientSettings(
            maximumConnections: WebhookFeature.connectionsPerEndpoint,
            maximumResponseBytes: 64 * 1024
        )
        settings.truncatesResponses = true
        return settings
    }

    let client: HTTPClient
    let timeLimit: Duration

    /// Sends a webhook once.
    ///
    /// - Parameter latestStart: See ``HTTPClientRequest/latestStart``.
    func send(
        _ message: WebhookMessage,
        to endpoint: WebhookEndpoint,
        startingBefore latestStart: UInt64? = nil
    ) async -> WebhookAttempt {
        let start = MonotonicTime.now
        var request = request(message, to: endpoint, at: Date())
        request.latestStart = latestStart
        do throws(HTTPClientError) {
            let response = try await client.send(request)
            return attempt(response, MonotonicTime.now - start)
        } catch {
            let duration = MonotonicTime.now - start
            // A server that was suspended says nothing about the endpoint.
            let wasSuspended = duration > timeLimit * 2
            let outcome: WebhookOutcome =
                switch error.code {
                case _ where wasSuspended: .abandoned
                case .cannotResolve, .cannotConnect, .proxy, .tls, .expired, .overloaded, .internalFailure,
                    .invalidRequest:
                    .unavailable
                case .timedOut: error.mayHaveBeenSent ? .unanswered : .unavailable
                case .connectionLost, .responseTooLarge, .badResponse, .uploadFailed: .unanswered
                case .canceled, .shutDown: .abandoned
                }
            return WebhookAttempt(
                outcome: outcome,
                status: nil,
                text: Self.shown(error.message),
                duration: duration
            )
        }
    }

    private func request(_ message: WebhookMessage, to endpoint: WebhookEndpoint, at date: Date) -> HTTPClientRequest {
        let body = message.body
        let seconds = Int(date.timeIntervalSince1970)
        let content = Array("\(message.id).\(seconds).".utf8) + body
        var fields = HTTPFields()
        fields[.contentType] = "application/json"
        fields[Self.id] = message.id
        fields[Self.timestamp] = String(seconds)
        fields[Self.signature] = endpoint.secrets.map { $0.signature(of: content) }.joined(separator: " ")
        return HTTPClientRequest(
            method: .post,
            url: endpoint.url.text,
            headerFields: fields,
            body: body,
            // The receiver recognizes a repetition.
            isIdempotent: true,
            totalTimeout: timeLimit
        )
    }

    private func attempt(_ response: HTTPClientResponse, _ duration: Duration) -> WebhookAttempt {
        let outcome: WebhookOutcome =
            switch response.status {
            case 200..<300: .delivered
            case 410: .gone
            case 429, 502, 503, 504: .unavailable
            default: .rejected
            }
        return WebhookAttempt(
            outcome: outcome,
            status: response.status,
            text: Self.shown(String(decoding: response.body.prefix(4 * Self.shownCharacters), as: UTF8.self)),
            retryAfter: outcome == .unavailable
                ? response.headerFields[.retryAfter].flatMap { RetryAfter.duration($0) } : nil,
            duration: duration
        )
    }

    /// Returns the first characters of a text, without those that are not printed.
    private static func shown(_ text: String) -> String {
        let scalars = text.unicodeScalars.prefix(shownCharacters).map { isPrinted($0) ? $0 : " " }
        return String(String.UnicodeScalarView(scalars))
    }

    private static func isPrinted(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: false
        default: true
        }
    }
}
