import Schemas

/// Counts of users or of batches by state.
package struct PushCounts: Sendable, Equatable {
    package var total: Int64
    package var sent: Int64
    package var failed: Int64
    package var uncertain: Int64
    package var skipped: Int64
    /// Those of finished batches that may have been reached twice.
    package var mayRepeat: Int64

    package init(
        total: Int64 = 0,
        sent: Int64 = 0,
        failed: Int64 = 0,
        uncertain: Int64 = 0,
        skipped: Int64 = 0,
        mayRepeat: Int64 = 0
    ) {
        self.total = total
        self.sent = sent
        self.failed = failed
        self.uncertain = uncertain
        self.skipped = skipped
        self.mayRepeat = mayRepeat
    }

    package var pending: Int64 { total - sent - failed - uncertain - skipped }
}

extension PushCounts {
    private static let members: [Shape<PushCounts>.Member] = [
        .member("total", .count, "All.", \.total),
        .member("sent", .count, "Kakao has accepted the request.", \.sent),
        .member("failed", .count, "Kakao has rejected the request, or all attempts were used up.", \.failed),
        .member("uncertain", .count, "The response was lost, and the push is sent at most once.", \.uncertain),
        .member("skipped", .count, "No device that the message addresses is known here.", \.skipped),
        .member("pending", .count, "Not finished.", \.pending),
    ]

    static let shape = Shape<PushCounts>("PushCounts", members)
    static let usersShape = Shape<PushCounts>(
        "PushUserCounts",
        members + [
            .member("may_repeat", .count, "Those of finished batches that may have been reached twice.", \.mayRepeat)
        ]
    )
}
