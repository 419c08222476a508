import Pushes

/// The rate in users per second at which a push is sent, over the last seconds. Pure.
struct RateMeter {
    /// The time over which the rate is measured. It is long enough that a slow push finishes a batch now and then, and
    /// short enough to show a change.
    private static let window = Duration.seconds(10)

    private var samples: [(time: ContinuousClock.Instant, users: Int64)] = []

    /// Adds a sample.
    ///
    /// - Parameters:
    ///   - users: The number of users sent to by then, successfully or not. A decrease, as after a retry of failed
    ///     batches, restarts the measurement.
    ///   - time: The time of the sample.
    mutating func add(_ users: Int64, at time: ContinuousClock.Instant) {
        if let last = samples.last, users < last.users { samples.removeAll() }
        samples.append((time, users))
        while samples.count > 2, samples[1].time <= time - Self.window { samples.removeFirst() }
    }

    /// The rate in users per second; `nil` until there are two samples.
    var perSecond: Double? {
        guard let first = samples.first, let last = samples.last, last.time > first.time else { return nil }
        return Double(last.users - first.users) / ((last.time - first.time) / .seconds(1))
    }
}

/// The progress of a push as a line of text. Pure.
struct PushProgress {
    /// The maximum length of the bar. A longer one would be no more precise.
    private static let maximumCells = 40
    /// The minimum length of the bar. A shorter one would show nothing.
    private static let minimumCells = 5

    let state: PushState
    let users: PushCounts
    /// The rate in users per second; `nil` if it is unknown.
    let rate: Double?
    /// Why nothing is sent at present; `nil` if something is, or if the state says it.
    var standstill: String?

    /// The line for a log: `sending 45% 4,500/10,000 users, 3 failed, 900/s, 7 s left`.
    var line: String {
        ([[state.rawValue, percentText, usersText].compactMap(\.self).joined(separator: " ")]
            + [standstill, troubleText, rateText, timeLeftText].compactMap(\.self))
            .joined(separator: ", ")
    }

    /// Returns the line for a terminal: `[####......] 45%  4,500/10,000 users  3 failed  900/s  7 s left`. The least
    /// important parts are omitted if there is no room for them.
    ///
    /// - Parameter width: The maximum number of columns.
    func line(width: Int) -> String {
        // The bar replaces the word "sending".
        var line = [percentText ?? state.rawValue, usersText].joined(separator: "  ")
        for text in [standstill, troubleText, rateText, timeLeftText].compactMap(\.self) {
            guard line.count + 2 + text.count <= width else { break }
            line += "  \(text)"
        }
        let cells = min(Self.maximumCells, width - line.count - "[] ".count)
        guard let share, cells >= Self.minimumCells else { return String(line.prefix(max(0, width))) }
        let full = Int(share * Double(cells))
        return "[\(String(repeating: "#", count: full))\(String(repeating: ".", count: cells - full))] \(line)"
    }

    /// The finished part of the push, 0 to 1; `nil` unless it is `sending` or `done`, when all of its users are known.
    private var share: Double? {
        guard state == .sending || state == .done else { return nil }
        guard users.total > 0 else { return 1 }
        return min(1, max(0, Double(users.total - users.pending) / Double(users.total)))
    }

    /// The finished part in percent, rounded down: 100 only when no user is pending.
    private var percentText: String? { share.map { "\(Int($0 * 100))%" } }

    private var usersText: String { "\(Text.grouped(users.sent))/\(Text.grouped(users.total)) users" }

    private var troubleText: String? {
        let counts = [(users.failed, "failed"), (users.uncertain, "uncertain"), (users.skipped, "skipped")]
        let texts = counts.filter { $0.0 > 0 }.map { "\(Text.grouped($0.0)) \($0.1)" }
        return texts.isEmpty ? nil : texts.joined(separator: ", ")
    }

    private var rateText: String? {
        guard standstill == nil, state == .sending || state == .preparing else { return nil }
        return rate.map(Text.rate)
    }

    private var timeLeftText: String? {
        guard standstill == nil, state == .sending, let rate, rate > 0, users.pending > 0 else { return nil }
        return "\(Text.duration(seconds: Double(users.pending) / rate)) left"
    }
}
