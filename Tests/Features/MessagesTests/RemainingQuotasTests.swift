import FoundationEssentials
import KakaoAPI
import Testing

@testable import Messages

/// The receivers for whom the quotas of a day have room.
@Suite struct RemainingQuotasTests {
    /// Returns the rest of the quotas of sender 1 and receivers a to e: of the app, of the sender, and those of single receivers.
    private static func remaining(
        app: Int = 100,
        sender: Int = 100,
        receivers: [String: Int] = [:],
        pairs: [String: Int] = [:]
    ) -> RemainingQuotas {
        var remaining = RemainingQuotas(day: "2026-11-23", nextDay: Date())
        remaining.messages[MessageQuotaKey(.app, sender: 1, uuid: nil)] = app
        remaining.messages[MessageQuotaKey(.sender, sender: 1, uuid: nil)] = sender
        for uuid in ["a", "b", "c", "d", "e"] {
            remaining.messages[MessageQuotaKey(.receiver, sender: 1, uuid: uuid)] = receivers[uuid, default: 100]
            remaining.messages[MessageQuotaKey(.pair, sender: 1, uuid: uuid)] = pairs[uuid, default: 100]
        }
        return remaining
    }

    @Test("Only the receivers whose own quotas are used up are refused, and they take nothing from the sender's quota")
    func single() {
        var remaining = Self.remaining(sender: 2, receivers: ["a": 0], pairs: ["b": 0])
        let charges = remaining.charge(from: 1, to: ["a", "b", "c", "d"])
        #expect(charges.counted == ["c", "d"])
        #expect(
            charges.refused == [
                RefusedReceiver(uuid: "a", quota: .receiver), RefusedReceiver(uuid: "b", quota: .pair),
            ]
        )
    }

    @Test(
        "The first receivers get what is left of the sender's quota, or of the app's",
        arguments: MessageQuota.allCases
    )
    func common(quota: MessageQuota) {
        var remaining = Self.remaining(app: quota == .app ? 2 : 100, sender: quota == .sender ? 2 : 100)
        let charges = remaining.charge(from: 1, to: ["a", "b", "c"])
        let isCommon = quota == .app || quota == .sender
        #expect(charges.counted == (isCommon ? ["a", "b"] : ["a", "b", "c"]))
        #expect(charges.refused == (isCommon ? [RefusedReceiver(uuid: "c", quota: quota)] : []))
    }

    @Test("A receiver who is named twice counts twice, or not at all")
    func twice() {
        var remaining = Self.remaining(pairs: ["a": 1, "b": 2])
        let charges = remaining.charge(from: 1, to: ["a", "b", "a", "b"])
        #expect(charges.counted == ["b", "b"])
        #expect(charges.refused == [RefusedReceiver(uuid: "a", quota: .pair)])
        #expect(remaining.messages[MessageQuotaKey(.sender, sender: 1, uuid: nil)] == 98)
    }

    @Test("Refused receivers are grouped by Kakao's code, and the sender is named nowhere")
    func failures() {
        let refused = [
            RefusedReceiver(uuid: "a", quota: .pair), RefusedReceiver(uuid: "b", quota: .receiver),
            RefusedReceiver(uuid: "c", quota: .pair), RefusedReceiver(uuid: nil, quota: .sender),
        ]
        #expect(refused.failures.map(\.code.rawValue) == [-533, -536])
        #expect(refused.failures.map(\.receivers) == [["b"], ["a", "c"]])
    }
}
