import Glibc
import Locking

/// A printer of violations as they are found, and of a summary at the end.
final class Report: Sendable {
    private struct State {
        var runs = 0
        var notHit: [Run] = []
        var violations = 0
        var omitted = 0
        var lastProgress = ContinuousClock.now
    }

    private static let progressInterval = Duration.seconds(30)

    private let start = ContinuousClock.now
    private let seed: UInt64
    private let isVerbose: Bool
    private let state = Locked(State())

    /// - Parameter isVerbose: Whether to print a line for each run.
    init(seed: UInt64, isVerbose: Bool) {
        self.seed = seed
        self.isVerbose = isVerbose
    }

    var hasViolations: Bool { state.withLock { $0.violations > 0 } }

    /// Counts runs that were omitted because the time was up.
    func addOmitted(_ runs: Int) {
        state.withLock { $0.omitted += runs }
    }

    /// Counts a run that is repeated because its point was not reached.
    func addMissed() {
        state.withLock { $0.runs += 1 }
    }

    func add(_ result: RunResult) {
        let run = result.run
        var lines: [String] = []
        state.withLock { state in
            state.runs += 1
            if result.missed { state.notHit.append(run) }
            state.violations += result.violations.isEmpty ? 0 : 1
            if isVerbose {
                let hit = result.hit.map { "at \($0)" } ?? "not hit"
                lines.append("run \(run.number) (\(run)) \(hit): \(result.duration.inTenths) s")
            } else if ContinuousClock.now - state.lastProgress > Self.progressInterval {
                state.lastProgress = .now
                lines.append("\(state.runs) runs, \(state.violations) violations so far")
            }
        }
        if !result.violations.isEmpty {
            let place = result.hit.map { " at \($0)" } ?? ""
            lines.append(
                "VIOLATION in run \(run.number): \(run) --seed \(seed)\(place): \(result.violations.joined(separator: "; ")) "
                    + "[\(result.logs.joined(separator: " "))]"
            )
        }
        for line in lines { write(line) }
    }

    /// Prints the runs whose point was not reached, and the totals.
    func writeSummary() {
        let state = state.withLock { $0 }
        for run in state.notHit { write("not hit: \(run)") }
        if state.omitted > 0 { write("\(state.omitted) runs omitted because the time was up") }
        let elapsed = (ContinuousClock.now - start).inTenths
        write("\(state.runs) runs, \(state.notHit.count) not hit, \(state.violations) violations, \(elapsed) s")
    }

    /// Prints the executed statements of each run.
    func writePoints(of results: [RunResult]) {
        for result in results.sorted(by: { $0.run.number < $1.run.number }) {
            write("\(result.run): \(result.record.count) points, \(result.duration.inTenths) s")
            for (point, key) in result.record { write("  \(point) \"\(key.words)\"") }
        }
    }

    func write(_ line: String) {
        print(line)
        fflush(nil)
    }
}

extension Duration {
    /// The duration in seconds with one decimal.
    fileprivate var inTenths: String {
        let tenths = Int(self / .milliseconds(100))
        return "\(tenths / 10).\(tenths % 10)"
    }
}
