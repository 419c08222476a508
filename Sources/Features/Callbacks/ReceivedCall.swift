import Endpoints
import FoundationEssentials
import JSON
import Postgres
import ServiceKit
import Sharing

/// A call from Kakao, parsed and authenticated, with all data that is needed to store it.
///
/// Its id and times are the same each time that it is stored, so that storing it again has no effect.
enum ReceivedCall: Sendable {
    case linkCallback(LinkCallback)
    /// The events of one notice or security event token.
    case events([KakaoEvent])
    case tokenFailure(TokenFailure)

    var receivedAt: Date {
        switch self {
        case .linkCallback(let callback): callback.receivedAt
        case .events(let events): events.first?.receivedAt ?? Date()
        case .tokenFailure(let failure): failure.receivedAt
        }
    }

    /// Whether data of users or relations to channels may change because of the call.
    var hasEffect: Bool {
        switch self {
        case .linkCallback: false
        case .events(let events): events.contains { $0.userID != nil || $0.channelChange != nil }
        case .tokenFailure: true
        }
    }
}

/// A call as stored in the database.
struct StoredCall<Call: Sendable>: Sendable {
    let call: Call
    /// When storing the call began. This is long after its receipt if it was in the journal.
    let storedAt: Date
}

// The format of a journal record is a JSON object with one member, whose name is the kind of call. Times are
// microseconds since 1970, the precision of PostgreSQL. JSON of external origin is written as a string, so that it can
// be parsed again whatever its depth.
extension ReceivedCall {
    private enum Kind: String {
        case linkCallback = "link_callback"
        case events
        case tokenFailure = "token_failure"
    }

    /// An error for a journal record in an unknown format.
    struct UnknownRecord: Error {}

    /// The call as a journal record, which contains no credential.
    var record: [UInt8] {
        var json = JSONWriter(reservingCapacity: 512)
        json.object { json in
            switch self {
            case .linkCallback(let callback):
                json.object(Kind.linkCallback.rawValue) { json in
                    json.member("id", callback.id.lowercased)
                    json.member("resource_id", callback.resourceID)
                    json.member("chat_type", callback.chatType)
                    json.member("hash_chat_id", callback.hashChatID)
                    json.member("template_id", callback.templateID)
                    json.member("args", String(decoding: callback.args, as: UTF8.self))
                    json.member("signature", callback.signature?.name)
                    json.member("share_id", callback.signature?.shareID?.text)
                    json.member("raw", callback.raw)
                    json.member("received_at", callback.receivedAt.microseconds)
                }
            case .events(let events):
                json.array(Kind.events.rawValue) { json in
                    for event in events {
                        json.object { json in
                            json.member("id", event.id.lowercased)
                            json.member("key", event.key)
                            json.member("type", event.type)
                            json.member("user_id", event.userID)
                            json.member("referrer_type", event.referrerType)
                            json.member("payload", String(decoding: event.payload, as: UTF8.self))
                            json.member("raw", event.raw)
                            json.member("received_at", event.receivedAt.microseconds)
                        }
                    }
                }
            case .tokenFailure(let failure):
                json.object(Kind.tokenFailure.rawValue) { json in
                    json.member("user_id", failure.userID)
                    json.member("push_token", failure.pushToken)
                    json.member("date", failure.date.microseconds)
                    json.member("received_at", failure.receivedAt.microseconds)
                }
            }
        }
        return json.bytes
    }

    /// Parses a journal record.
    ///
    /// - Throws: ``UnknownRecord``.
    init(record: [UInt8]) throws {
        guard let member = (try? JSONValue(parsing: record))?.object?.members.first,
            let kind = Kind(rawValue: member.name)
        else { throw UnknownRecord() }
        let value = member.value
        switch kind {
        case .linkCallback:
            self = .linkCallback(
                LinkCallback(
                    id: try value.uuid("id"),
                    resourceID: value["resource_id"]?.string,
                    chatType: value["chat_type"]?.string,
                    hashChatID: value["hash_chat_id"]?.string,
                    templateID: value["template_id"]?.integer,
                    args: Array(try value.text("args").utf8),
                    signature: ShareSigner.Verdict(
                        name: value["signature"]?.string,
                        shareID: value["share_id"]?.string.flatMap { ShareID($0) }
                    ),
                    raw: value["raw"]?.string,
                    receivedAt: try value.date("received_at")
                )
            )
        case .events:
            guard let events = value.array else { throw UnknownRecord() }
            self = .events(
                try events.map { event in
                    KakaoEvent(
                        id: try event.uuid("id"),
                        key: try event.text("key"),
                        type: try event.text("type"),
                        userID: event["user_id"]?.integer,
                        referrerType: event["referrer_type"]?.string,
                        payload: Array(try event.text("payload").utf8),
                        raw: event["raw"]?.string,
                        receivedAt: try event.date("received_at")
                    )
                }
            )
        case .tokenFailure:
            guard let userID = value["user_id"]?.integer else { throw UnknownRecord() }
            self = .tokenFailure(
                TokenFailure(
                    userID: userID,
                    pushToken: try value.text("push_token"),
                    date: try value.date("date"),
                    receivedAt: try value.date("received_at")
                )
            )
        }
    }
}

extension Date {
    /// The microseconds since 1970. The date is first rounded as in a statement, which counts from another year and may
    /// round the other way.
    var microseconds: Int64 {
        Int64(exactly: (asStored.timeIntervalSince1970 * 1_000_000).rounded()) ?? 0
    }
}

extension JSONValue {
    fileprivate func text(_ name: String) throws -> String {
        guard let text = self[name]?.string else { throw ReceivedCall.UnknownRecord() }
        return text
    }

    fileprivate func uuid(_ name: String) throws -> UUID {
        guard let uuid = UUID(uuidString: try text(name)) else { throw ReceivedCall.UnknownRecord() }
        return uuid
    }

    fileprivate func date(_ name: String) throws -> Date {
        guard let microseconds = self[name]?.integer else { throw ReceivedCall.UnknownRecord() }
        return Date(timeIntervalSince1970: Double(microseconds) / 1_000_000)
    }
}
