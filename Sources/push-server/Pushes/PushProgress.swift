internal import PushService

/// How many users a second are sent to, over the last seconds. Pure.
struct RateMeter {
    /// Long enough for a batch to end now and then in a slow push, short enough to see that something has changed.
    private static let window = Duration.seconds(10)

    private var samples: [(time: ContinuousClock.Instant, users: Int64)] = []

    /// - Parameter users: Those who have been sent to until then, well or not. Fewer than before starts anew: what failed is sent again.
    mutating func add(_ users: Int64, at time: ContinuousClock.Instant) {
        if let last = samples.last, users < last.users { samples.removeAll() }
        samples.append((time, users))
        while samples.count > 2, samples[1].time <= time - Self.window { samples.removeFirst() }
    }

    /// `nil` until there are two samples.
    var perSecond: Double? {
        guard let first = samples.first, let last = samples.last, last.time > first.time else { return nil }
        return Double(last.users - first.users) / ((last.time - first.time) / .seconds(1))
    }
}

/// How far a push has come, in a line. Pure.
struct PushProgress {
    /// A longer bar says no more.
    private static let maximumCells = 40
    /// A shorter one says nothing.
    private static let minimumCells = 5

    let state: PushState
    let users: PushCounts
    /// Users a second, if that is known.
    let rate: Double?

    /// For a log: `sending 45% 4,500/10,000 users, 3 failed, 900/s, 7 s left`.
    var line: String {
        ([[state.rawValue, percentText, usersText].compactMap(\.self).joined(separator: " ")]
            + [troubleText, rateText, timeLeftText].compactMap(\.self))
            .joined(separator: ", ")
    }

    /// For a terminal: `[####......] 45%  4,500/10,000 users  3 failed  900/s  7 s left`. What is least important is left out when there is
    /// no room for it.
    ///
    /// - Parameter width: The columns that there are. The line is never wider.
    func line(width: Int) -> String {
        // The bar says that it is being sent.
        var line = [percentText ?? state.rawValue, usersText].joined(separator: "  ")
        for text in [troubleText, rateText, timeLeftText].compactMap(\.self) {
            guard line.count + 2 + text.count <= width else { break }
            line += "  \(text)"
        }
        let cells = min(Self.maximumCells, width - line.count - "[] ".count)
        guard let share, cells >= Self.minimumCells else { return String(line.prefix(max(0, width))) }
        let full = Int(share * Double(cells))
        return "[\(String(repeating: "#", count: full))\(String(repeating: ".", count: cells - full))] \(line)"
    }

    /// How much of it is over with, 0 to 1; `nil` unless its users are all known and it is on its way, or done.
    private var share: Double? {
        guard state == .sending || state == .done else { return nil }
        guard users.total > 0 else { return 1 }
        return min(1, max(0, Double(users.total - users.pending) / Double(users.total)))
    }

    /// 100 only when nobody is left.
    private var percentText: String? { share.map { "\(Int($0 * 100))%" } }

    private var usersText: String { "\(Text.grouped(users.sent))/\(Text.grouped(users.total)) users" }

    private var troubleText: String? {
        let counts = [(users.failed, "failed"), (users.uncertain, "uncertain"), (users.skipped, "skipped")]
        let texts = counts.filter { $0.0 > 0 }.map { "\(Text.grouped($0.0)) \($0.1)" }
        return texts.isEmpty ? nil : texts.joined(separator: ", ")
    }

    private var rateText: String? {
        guard state == .sending || state == .preparing else { return nil }
        return rate.map(Text.rate)
    }

    private var timeLeftText: String? {
        guard state == .sending, let rate, rate > 0, users.pending > 0 else { return nil }
        return "\(Text.duration(seconds: Double(users.pending) / rate)) left"
    }
}
