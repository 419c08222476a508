import Locking
package import Runtime

/// What a check of ``LostCommits`` has reported.
package struct ReportedLoss: Sendable, Equatable {
    package var missing: Int
    package var gone: [String]

    package init(missing: Int = 0, gone: [String] = []) {
        self.missing = missing
        self.gone = gone
    }

    /// Runs a check, and returns what it reports.
    package static func of(_ check: (LostCommits.Report) async throws -> Void) async throws -> ReportedLoss {
        let reported = Locked(ReportedLoss())
        try await check { missing, gone in
            reported.withLock { loss in
                loss.missing += missing
                loss.gone += gone
            }
        }
        return reported.withLock { $0 }
    }
}
