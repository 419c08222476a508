import Endpoints
import FoundationEssentials
import JSON
import Runtime

/// A webhook as it is sent.
struct WebhookMessage: Sendable, Equatable {
    /// The header field `webhook-id`, by which the receiver recognizes it. It is the same at each attempt.
    let id: String
    let type: String
    let happenedAt: Date
    /// The object that it is about.
    let subject: String
    /// The order of the webhooks about an object.
    let revision: Int64
    /// A JSON object.
    let data: [UInt8]

    /// The body of the request.
    var body: [UInt8] {
        var json = JSONWriter(reservingCapacity: data.count + 256)
        json.object {
            $0.member("type", type)
            $0.member("timestamp", happenedAt.rfc3339)
            $0.member("subject", subject)
            $0.member("revision", revision)
            $0.member("data", JSONFragment(data))
        }
        return json.bytes
    }

    private static let prefix = "msg_"

    /// Returns the header field `webhook-id` of a row of `webhook_events`.
    static func id(_ event: UUID) -> String { prefix + event.lowercased }

    /// Returns the row of `webhook_events` that a header field `webhook-id` names; `nil` if it names none.
    static func event(_ id: String) -> UUID? {
        id.hasPrefix(prefix) ? UUID(uuidString: String(id.dropFirst(prefix.count))) : nil
    }

    /// A webhook by which an operator tests an endpoint.
    static func test() -> WebhookMessage {
        let now = Date()
        return WebhookMessage(
            id: "\(prefix)test_\(UUID.v7().lowercased)",
            type: WebhookType.test.rawValue,
            happenedAt: now,
            subject: "test",
            revision: Int64(now.timeIntervalSince1970 * 1_000_000),
            data: Array("{}".utf8)
        )
    }
}
