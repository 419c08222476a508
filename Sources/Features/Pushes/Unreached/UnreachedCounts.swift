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
    /// The users of batches that were not sent before the push ended, of those in flight then, and of those that were to be sent again.
    var unsent: Int64 = 0
    /// Why they were not sent; `nil` if the push was neither canceled nor has expired.
    var unsentCause: UnreachedCause?
    /// Whether the whole audience is prepared.
    var isComplete = false

    init() {}

    /// Decodes the last columns of `push_summaries`.
    init(stored column: inout ColumnCursor) throws {
        skipped = try Skipped(noDevice: column.next(), excluded: column.next(), withoutConsent: column.next())
        unsent = try column.next()
        unsentCause = try column.next(String?.self).flatMap(UnreachedCause.init(rawValue:))
        isComplete = try column.next()
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
                    + "stored, and so are those who may have been reached, whom `state=uncertain` exports.",
                \.unreached
            ),
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
            .member("expired", .count, "It expired.") { $0.unsent(.expired) },
            .member("night", .count, "It is advertising, and was canceled or expired outside its hours.") {
                $0.unsent(.night)
            },
        ]
    )
}
