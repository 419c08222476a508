import Endpoints
import FoundationEssentials
import JSON
import Runtime

/// A webhook: an event with the id by which the receiver recognizes it.
struct WebhookMessage: Sendable {
    /// The header field `webhook-id`. It is the same at each attempt.
    let id: String
    let type: String
    let happenedAt: Date
    let userID: Int64?
    /// A JSON object.
    let data: [UInt8]

    /// The body of the request.
    var body: [UInt8] {
        var json = JSONWriter(reservingCapacity: data.count + 128)
        json.object {
            $0.member("type", type)
            $0.member("timestamp", happenedAt.rfc3339)
            $0.member("data", JSONFragment(data))
        }
        return json.bytes
    }
}

/// The parts of a webhook's id: where its event is.
struct WebhookID: Sendable {
    private static let prefix = "msg"

    let source: String
    let position: WebhookPosition

    init(_ source: WebhookSource, _ position: WebhookPosition) {
        self.source = source.name
        self.position = position
    }

    /// Parses an id; `nil` if it is not of this form.
    init?(_ text: String) {
        let parts = text.split(separator: "_", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == Self.prefix, UInt64(parts[3]) != nil else { return nil }
        source = String(parts[1])
        position = WebhookPosition(xid: String(parts[3]), key: String(parts[2]))
    }

    var text: String { "\(Self.prefix)_\(source)_\(position.key)_\(position.xid)" }
}

extension WebhookMessage {
    /// Creates the webhook of an event; `nil` if it is no event any more.
    init?(_ event: WebhookEvent, of source: WebhookSource) {
        guard let type = event.type else { return nil }
        self.init(
            id: WebhookID(source, event.position).text,
            type: type.rawValue,
            happenedAt: event.happenedAt,
            userID: event.userID,
            data: event.data
        )
    }

    /// A webhook by which an operator tests the endpoint.
    static func test() -> WebhookMessage {
        WebhookMessage(
            id: "msg_test_\(UUID.v7().lowercased)",
            type: WebhookType.test.rawValue,
            happenedAt: Date(),
            userID: nil,
            data: Array("{}".utf8)
        )
    }
}
