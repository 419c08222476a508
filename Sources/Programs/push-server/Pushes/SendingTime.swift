import Endpoints
import FoundationEssentials
import JSON

/// The time at which a push goes out, from the server's JSON. Pure.
struct SendingTime {
    private let sendAt: Date?
    /// When the hours for advertising begin that the push waits for.
    private let waitsUntil: Date?
    /// Whether it waits for an approval before.
    private let needsApproval: Bool

    /// - Parameters:
    ///   - sendAt: The member `send_at` of the push or of its request.
    ///   - waitsUntil: The member `waits_until` of the push or of its dry run.
    init(sendAt: JSONValue?, waitsUntil: JSONValue?, needsApproval: Bool) {
        self.sendAt = sendAt?.string.flatMap { Date(rfc3339: $0) }
        self.waitsUntil = waitsUntil?.string.flatMap { Date(rfc3339: $0) }
        self.needsApproval = needsApproval
    }

    func text(_ times: ShownTimes, now: Date) -> String {
        if let waitsUntil { return "\(future(waitsUntil, times, now)), when the hours for advertising begin" }
        guard let sendAt else { return needsApproval ? "once it is approved" : "now" }
        guard sendAt > now else {
            return "\(needsApproval ? "once it is approved" : "now"): \(times.full(sendAt)) is past"
        }
        return future(sendAt, times, now)
    }

    private func future(_ date: Date, _ times: ShownTimes, _ now: Date) -> String {
        let remaining = Text.duration(seconds: max(0, date.timeIntervalSince(now)))
        return "\(times.full(date)), in \(remaining)\(needsApproval ? ", if it is approved by then" : "")"
    }
}

extension ServerClient {
    /// Prints when the hours for advertising begin that a push waits for, if it does.
    ///
    /// - Parameter push: A push with times in UTC.
    func reportWaiting(of push: ShownPush) async throws {
        guard let waitsUntil = push.waitsUntil else { return }
        Terminal.writeError("Advertising waits for its hours until \(try await times().shown(in: waitsUntil)).")
    }
}
