import Endpoints
import FoundationEssentials
import JSON

/// The time at which a push goes out, from the server's JSON. Pure.
struct SendingTime {
    private let sendAt: Date?
    private let expiresAt: Date?
    /// When the hours for advertising begin that the push waits for.
    private let waitsUntil: Date?
    /// Whether it waits for an approval before.
    private let needsApproval: Bool

    /// - Parameters:
    ///   - push: The push or its request.
    ///   - waitsUntil: The member `waits_until` of the push or of its dry run.
    init(_ push: JSONValue, waitsUntil: JSONValue?, needsApproval: Bool) {
        sendAt = push["send_at"]?.string.flatMap { Date(rfc3339: $0) }
        expiresAt = push["expires_at"]?.string.flatMap { Date(rfc3339: $0) }
        self.waitsUntil = waitsUntil?.string.flatMap { Date(rfc3339: $0) }
        self.needsApproval = needsApproval
    }

    func text(_ times: ShownTimes, now: Date) -> String {
        if let expiresAt, expiresAt <= max(now, waitsUntil ?? now) { return never(expiresAt, times, now) }
        if let waitsUntil { return future(waitsUntil, times, now, ", when the hours for advertising begin") }
        guard let sendAt else { return needsApproval ? "once it is approved" : "now" }
        guard sendAt > now else {
            return "\(needsApproval ? "once it is approved" : "now"): \(times.full(sendAt)) is past"
        }
        return future(sendAt, times, now)
    }

    /// Returns that nothing can be sent, and why.
    private func never(_ expiresAt: Date, _ times: ShownTimes, _ now: Date) -> String {
        guard let waitsUntil, expiresAt > now else { return "never, since it has expired at \(times.full(expiresAt))" }
        return """
            never, since it expires at \(times.full(expiresAt)), and the hours for advertising begin at \(times.full(waitsUntil))
            """
    }

    private func future(_ date: Date, _ times: ShownTimes, _ now: Date, _ cause: String = "") -> String {
        let remaining = Text.duration(seconds: max(0, date.timeIntervalSince(now)))
        let condition = needsApproval ? "; it expires unless it is approved within 24 hours" : ""
        return "\(times.full(date)), in \(remaining)\(cause)\(condition)"
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

    /// Tells the operator who is asked which push it is.
    ///
    /// - Parameter push: The server's JSON of the push.
    func writeSummary(_ push: JSONValue) async throws {
        let shown = try await timesOfQuestion().shown(push)
        for line in Text.table(try ShownPush(shown).summary(shown)) { Terminal.writeError(line) }
    }

    /// Prints the warnings about a push.
    func reportWarnings(of push: ShownPush) async throws {
        guard !push.warnings.isEmpty else { return }
        let times = try await times()
        for warning in push.warnings { Terminal.writeError(times.shown(in: warning)) }
    }
}
