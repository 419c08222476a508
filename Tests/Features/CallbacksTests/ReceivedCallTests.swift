import FoundationEssentials
import Postgres
import ServiceKit
import ServiceTesting
import Testing

@testable import Callbacks
@testable import Endpoints

/// The encoding of calls as journal records.
struct ReceivedCallTests {
    @Test("The journal keeps times to the microsecond; otherwise a report stored twice would count twice")
    func times() throws {
        for index in 0..<20_000 {
            // Times with various fractions of a microsecond.
            let time = Date(timeIntervalSinceReferenceDate: 817_000_000 + Double(index) * 0.000_123_456_7)
            let failure = TokenFailure(userID: 1, pushToken: "token", date: time, receivedAt: time)
            let read = try ReceivedCall(record: ReceivedCall.tokenFailure(failure).record)
            guard case .tokenFailure(let copy) = read else {
                Issue.record("another kind of call")
                return
            }
            #expect(copy.date.asStored == time.asStored)
            guard copy.date.asStored == time.asStored else { return }
        }
    }

    @Test("Events are decoded completely, including deeply nested values")
    func events() throws {
        let payload = Array(
            (String(repeating: "[", count: 60) + #""\u0001 값""# + String(repeating: "]", count: 60)).utf8
        )
        let event = KakaoEvent(
            id: .v7(),
            key: "key \" \\",
            type: "https://example.com/event",
            userID: .max,
            referrerType: nil,
            payload: payload,
            raw: nil,
            receivedAt: Date().asStored
        )
        guard case .events(let events) = try ReceivedCall(record: ReceivedCall.events([event, event]).record) else {
            Issue.record("another kind of call")
            return
        }
        #expect(events.count == 2)
        for copy in events {
            #expect(copy.id == event.id)
            #expect(copy.key == event.key)
            #expect(copy.type == event.type)
            #expect(copy.userID == .max)
            #expect(copy.referrerType == nil)
            #expect(copy.payload == payload)
            #expect(copy.receivedAt.asStored == event.receivedAt)
        }
    }

    @Test(
        "An event has an effect if it concerns a user or changes a relation, and is then stored however many are malformed"
    )
    func effects() {
        func hasEffect(_ type: String, _ userID: Int64? = nil, _ payload: String = "{}") -> Bool {
            let event = KakaoEvent(
                id: .v7(),
                key: "key",
                type: type,
                userID: userID,
                referrerType: nil,
                payload: Array(payload.utf8),
                raw: "raw",
                receivedAt: Date()
            )
            return ReceivedCall.events([event]).hasEffect
        }
        let change =
            #"{"id_type":"open_id","id":"a","channel_public_id":"_Z","updated_at":"2026-11-20T10:00:00.000000Z"}"#
        #expect(hasEffect("unlink", 1))
        #expect(hasEffect("channel_blocked", nil, change))
        #expect(!hasEffect("channel", nil, change))
        #expect(!hasEffect("channel_blocked"))
        #expect(!hasEffect("unlink"))
    }

    @Test(
        "An invalid record is rejected",
        arguments: ["", "{}", "[]", #"{"other":1}"#, #"{"events":1}"#, #"{"link_callback":{}}"#]
    )
    func unknown(text: String) {
        #expect(throws: ReceivedCall.UnknownRecord.self) { try ReceivedCall(record: Array(text.utf8)) }
    }
}
