import HTTPServer
import HTTPTypes
package import JSON
import Locking
import Net

/// A webhook that the sandbox has received.
package struct ReceivedWebhook: Sendable {
    /// The number of the webhook, counted from 1 in the order of arrival, without gaps.
    package let sequence: Int
    /// The time in Unix milliseconds.
    package let receivedAt: Int64
    /// The header fields by their names in lower case.
    package let headers: [(name: String, value: String)]
    package let body: String

    /// The value of a header field; `nil` if there is none.
    package func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }

    /// The header field `webhook-id`.
    package var id: String { header("webhook-id") ?? "" }

    /// The member `type` of the body.
    package var type: String { json?["type"]?.string ?? "" }

    /// The body, if it is JSON.
    package var json: JSONValue? { try? JSONValue(parsing: Array(body.utf8)) }
}

/// The receiver of the push server's webhooks, `POST /webhooks`, and its controls (`docs/sandbox.md`). It verifies nothing.
final class WebhookReceiver: Sendable {
    static let path = "/webhooks"
    private let log: Locked<RecentLog<ReceivedWebhook>>

    /// - Parameter capacity: The number of webhooks that are kept.
    init(capacity: Int) {
        log = Locked(RecentLog(capacity: capacity))
    }

    func add(to calls: inout KakaoCallServer) {
        calls.on(Self.path, method: .post) { [self] in receive($0) }
    }

    func addRoutes(to router: inout Router) {
        router.control(.get, "/sandbox/webhooks", list)
        router.command(.delete, "/sandbox/webhooks") { [self] _ in deleteWebhooks() }
    }

    private func receive(_ request: Request) -> Response {
        let headers = request.head.headerFields.map { (name: $0.name.canonicalName, value: $0.value) }
        let body = String(decoding: request.body, as: UTF8.self)
        log.withLock { log in
            log.append(
                ReceivedWebhook(
                    sequence: log.nextSequence,
                    receivedAt: WallClock.unixMilliseconds,
                    headers: headers,
                    body: body
                )
            )
        }
        return .text("received\n")
    }

    /// Returns the oldest webhooks after a sequence number, at most `limit`.
    func webhooks(after sequence: Int, limit: Int) -> [ReceivedWebhook] {
        log.withLock { $0.page(after: sequence, limit: limit) { _ in true } }
    }

    func deleteWebhooks() {
        log.withLock { $0.removeAll() }
    }

    private func list(_ request: Request) throws -> Response {
        let query = try ControlInput(queryOf: request, known: ["after", "limit"])
        let (after, limit) = try query.page()
        return .page(webhooks(after: after, limit: limit), limit: limit, number: \.sequence)
    }
}

extension ReceivedWebhook: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.object { json in
            json.member("sequence", sequence)
            json.member("received_at", WallClock.text(unixMilliseconds: receivedAt))
            json.member("id", id)
            json.member("type", type)
            json.member("timestamp", header("webhook-timestamp"))
            json.object("headers") { headers in
                for (name, value) in self.headers { headers.member(name, value) }
            }
            json.member("body", body)
        }
    }
}
