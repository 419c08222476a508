import Endpoints
import FoundationEssentials
import JSON

/// A security event token that arrived while Kakao's keys could not be fetched. It has no effect until it is verified.
struct UnverifiedEvents: Sendable {
    let token: String
    let receivedAt: Date

    /// The token as a journal record: a JSON object with one member, as for other calls.
    var record: [UInt8] {
        var json = JSONWriter(reservingCapacity: 1024)
        json.object { json in
            json.object("unverified_events") { json in
                json.member("token", token)
                json.member("received_at", receivedAt.microseconds)
            }
        }
        return json.bytes
    }

    init(token: String, receivedAt: Date) {
        self.token = token
        self.receivedAt = receivedAt
    }

    /// Parses a journal record; `nil` for one of another kind.
    init?(record: [UInt8]) {
        guard let value = (try? JSONValue(parsing: record))?["unverified_events"],
            let token = value["token"]?.string, let microseconds = value["received_at"]?.integer
        else { return nil }
        self.init(token: token, receivedAt: Date(timeIntervalSince1970: Double(microseconds) / 1_000_000))
    }
}
