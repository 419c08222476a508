import Endpoints
import Postgres
import Schemas

/// The numbers of users whom a push did not reach, apart from those that ``PushCounts`` has.
struct UnreachedCounts: Sendable, Equatable {
    /// The skipped users, each counted once.
    struct Skipped: Sendable, Equatable {
        var noDevice: Int64 = 0
        var excluded: Int64 = 0
        var withoutConsent: Int64 = 0
    }

    var skipped = Skipped()
    /// The users of batches that were not sent before the push ended, and of those in flight then.
    var unsent: Int64 = 0
    /// Why they were not sent; `nil` if the push was neither canceled nor has expired.
    var unsentCause: UnreachedCause?
    /// Whether the whole audience is prepared.
    var isComplete = false
    /// The users of batches that were to be sent again when the push ended, although they may have been reached.
    var unanswered: Int64 = 0

    init() {}

    /// Decodes the last columns of `push_summaries`.
    init(stored column: inout ColumnCursor) throws {
        skipped = try Skipped(noDevice: column.next(), excluded: column.next(), withoutConsent: column.next())
        unsent = try column.next()
        unsentCause = try column.next(String?.self).flatMap(UnreachedCause.init(rawValue:))
        isComplete = try column.next()
        // Absent from the webhooks of version 0.1.0.
        unanswered = try column.next(Int64?.self) ?? 0
    }

    /// Returns the number of users who were not sent to for a cause.
    fileprivate func unsent(_ cause: UnreachedCause) -> Int64 { unsentCause == cause ? unsent : 0 }
}

extension PushSummary {
    /// The users whom the push did not reach, by cause.
    static let unreachedShape = Shape<PushSummary>(
        "PushUnreached",
        [
            .member(
                "skipped",
                skippedShape.kind,
                "The users whom the preparation skipped. A user with several causes has the first of `excluded`, `without_consent` and "
                    + "`no_device`.",
                \.unreached.skipped
            ),
            .member("failed", .count, "Kakao has rejected the request, or all attempts were used up.", \.users.failed),
            .member(
                "unsent",
                unsentShape.kind,
                "The users whose batches were not sent before the push ended. Those in flight at its end are among them until their result is "
                    + "stored.",
                \.unreached
            ),
            .member(
                "uncertain",
                .count,
                "They may have been reached: Kakao did not answer. Unlike `users.uncertain`, it counts those who were to be sent to again when "
                    + "the push was canceled or expired."
            ) { $0.users.uncertain + $0.unreached.unanswered },
            .member(
                "complete",
                .boolean,
                "Whether the whole audience is prepared. The others are in no count and no export.",
                \.unreached.isComplete
            ),
            .member("path", .text, "The path of `exportPushUsers`.") { "/v1/pushes/\($0.id.lowercased)/users" },
        ]
    )

    private static let skippedShape = Shape<UnreachedCounts.Skipped>(
        "PushSkipped",
        [
            .member("no_device", .count, "No device that the message addresses is known here.", \.noDevice),
            .member("excluded", .count, "`except` names them.", \.excluded),
            .member(
                "without_consent",
                .count,
                "They have not consented to advertising (`pushes.advertising_tag`).",
                \.withoutConsent
            ),
        ]
    )

    private static let unsentShape = Shape<UnreachedCounts>(
        "PushUnsent",
        [
            .member("canceled", .count, "The push was canceled.") { $0.unsent(.canceled) },
            .member("rejected", .count, "It was not approved.") { $0.unsent(.rejected) },
            .member("expired", .count, "It expired.") { $0.unsent(.expired) },
            .member("night", .count, "It is advertising, and was canceled or expired outside its hours.") {
                $0.unsent(.night)
            },
        ]
    )
}
