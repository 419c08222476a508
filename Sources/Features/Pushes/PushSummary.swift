import Endpoints
import FoundationEssentials
import JSON
import Postgres
import Runtime
import Schemas
import ServiceKit

/// A push as it is shown.
struct PushSummary: Sendable {
    let id: UUID
    let name: String?
    /// The name of the operator key that created it; `nil` for a push of an earlier version.
    let createdBy: String?
    /// The id of that key, which is not shown; `nil` for a push of an earlier version.
    let createdByKey: UUID?
    let kind: PushKind?
    var state: PushState
    var reason: String?
    /// The audience as it is shown: a JSON object.
    let audience: [UInt8]
    /// Whether the audience are the testers of the settings.
    let toTesters: Bool
    /// The users to send to, as counted when it was created; `nil` if it could not need an approval.
    let countedUsers: Int64?
    /// Whether it waits for an approval.
    let awaitsApproval: Bool
    /// The name of the operator key that approved it.
    var approvedBy: String?
    var approvedAt: Date?
    /// The name of the operator key that last paused, canceled or rejected it; `nil` once it was resumed.
    var stoppedBy: String?
    /// When the same message was last sent to a tester.
    let lastTestedAt: Date?
    /// The users who are left out, as it is shown: a JSON object.
    let exclusion: [UInt8]?
    /// The excluded pushes that it waits for.
    var waitsFor: [UUID] = []
    /// When the hours for advertising begin, if the push waits for them or will at its `sendAt`; otherwise `nil`.
    var waitsUntil: Date?
    let delivery: Delivery
    let usersPerSecond: Int32?
    let sendAt: Date?
    let expiresAt: Date?
    let createdAt: Date
    var startedAt: Date?
    var finishedAt: Date?
    /// The beginning of what a phone shows.
    let firstWords: String
    /// The SHA-256 of the message, in hexadecimal.
    let messageDigest: String
    /// The warnings about the message as they are shown: a JSON array.
    var warnings: [UInt8]
    var users = PushCounts()
    var batches = PushCounts()
    /// The users who have opened it, as their apps report.
    var opened: Int64 = 0
    var unreached = UnreachedCounts()
    /// `nil` if it is not shown.
    var message: ShownMessage?
    /// `nil` if it is not shown.
    var app: ShownApp?
}

/// The message of a push as it is shown.
struct ShownMessage: Sendable {
    /// The message without its push tokens.
    let json: JSONObject
    let phones: [PhoneView]
}

extension PushSummary {
    /// The members of a push.
    static let shape = Shape<PushSummary>(
        "Push",
        [
            .member("id", .uuid, "The id of the push.", \.id),
            .nullable("name", .text, "Its name to show.", \.name),
            .nullable("created_by", .text, "The name of the operator key that created it.", \.createdBy),
            .nullable("kind", Kind<PushKind>.choice, "Whether it is advertising.", \.kind),
            .member("state", .pushState, "Its state.", \.state),
            .nullable(
                "reason",
                .text,
                "Why it is halted, in Kakao's words if Kakao rejects it, or why it was not approved.",
                \.reason
            ),
            .member(
                "awaits_approval",
                .boolean,
                "Whether it waits for an approval: it is proposed, or its audience has grown since it was counted.",
                \.awaitsApproval
            ),
            .nullable(
                "approve_before",
                .time,
                "When a proposed push expires unless it is approved: 24 hours after it was created, or at its `expires_at`.",
                \.approvalEnd
            ),
            .nullable("approved_by", .text, "The name of the operator key that approved it.", \.approvedBy),
            .nullable("approved_at", .time, "When it was approved.", \.approvedAt),
            .nullable(
                "stopped_by",
                .text,
                "The name of the operator key that last paused, canceled or rejected it; null once it was resumed.",
                \.stoppedBy
            ),
            .member(
                "first_words",
                .text,
                "The beginning of what a phone shows, at most 80 characters; empty for a push of an earlier version.",
                \.firstWords
            ),
            .member(
                "message_sha256",
                .text,
                "The SHA-256 of the message as the server stores it: JSON without spaces. Equal messages have equal ones.",
                \.messageDigest
            ),
            .member(
                "warnings",
                .warnings,
                "What may be wrong with the message, found when the push was created, and with the times, as they are at present."
            ) {
                JSONFragment($0.warnings)
            },
            .member("audience", .objectText, "The audience as given; a long list of users is truncated.") {
                JSONFragment($0.audience)
            },
            .member("to_testers", .boolean, "Whether the audience are the testers of the settings.", \.toTesters),
            .nullable("except", .objectText, "The users who are left out, as given.") { push in
                push.exclusion.map { JSONFragment($0) }
            },
            .nullable(
                "counted_users",
                .count,
                "The users to send to, as counted when it was created. Null without `pushes.approval_above_users`, and for lists of "
                    + "fewer users.",
                \.countedUsers
            ),
            .nullable(
                "last_tested_at",
                .time,
                "When the same message was last sent to a tester, in a push that is still kept.",
                \.lastTestedAt
            ),
            .array(
                "waits_for",
                .uuid,
                "The pushes whose users are left out, and which it waits for: they are being prepared, or have just ended.",
                \.waitsFor
            ),
            .nullable(
                "waits_until",
                .time,
                "When the hours for advertising begin, if the push waits for them, or will wait for them at its `send_at` or once it is "
                    + "approved: `pushes.advertising_hours`.",
                \.waitsUntil
            ),
            .member("delivery", .delivery, "Whether a request whose response was lost is sent again.", \.delivery),
            .nullable("send_at", .time, "When it is to be sent.", \.sendAt),
            .nullable("expires_at", .time, "The time after which nothing is sent.", \.expiresAt),
            .member("created_at", .time, "When it was created.", \.createdAt),
            .nullable("started_at", .time, "When sending began.", \.startedAt),
            .nullable("finished_at", .time, "When it ended.", \.finishedAt),
            .member("users", PushCounts.usersShape.kind, "Its users by outcome.", \.users),
            .member("batches", PushCounts.shape.kind, "Its batches by outcome.", \.batches),
            .member(
                "opened",
                .count,
                "The users who have opened it, as their apps report with `reportPushOpened`.",
                \.opened
            ),
            .member("unreached", unreachedShape.kind, "The users whom it did not reach, by cause.") { $0 },
            .nullable("users_per_second", Kind<Int32>.number, "The maximum rate.", \.usersPerSecond),
            .nullable("estimated_end", .time, "When it ends at its rate so far.", \.estimatedEnd),
            .optional(
                "message",
                .object,
                "The message as given, with its push tokens masked. Only in the response of `getPush`.",
                \.message?.json
            ),
            .optional(
                "phones",
                PhoneView.shape.kind.array,
                "What phones show of it, with the present settings. Only in the response of `getPush`.",
                \.message?.phones
            ),
            .optional(
                "app",
                ShownApp.shape.kind,
                "The app whose users are reached, by the present settings. Only in the response of `getPush`.",
                \.app
            ),
        ]
    )

    /// When the push can no longer be approved, as `push_awaits_approval` decides it; `nil` unless it is proposed.
    private var approvalEnd: Date? {
        guard state == .proposed else { return nil }
        return min(createdAt.addingTimeInterval(86_400), expiresAt ?? .distantFuture)
    }

    /// The time at which the push ends at its average rate so far.
    ///
    /// `nil` if the push is not being sent or waits for the hours for advertising, if the rate is unknown, or if the end is more than
    /// a year away. Such an estimate is meaningless: the push has hardly begun, or a clock was set.
    private var estimatedEnd: Date? {
        let finished = users.sent + users.failed + users.uncertain
        guard state == .sending, waitsUntil == nil, let startedAt, finished > 0, users.pending > 0 else { return nil }
        let now = Date()
        let remaining = now.timeIntervalSince(startedAt) * Double(users.pending) / Double(finished)
        guard (0...Self.maxEstimateSeconds).contains(remaining) else { return nil }
        return now + remaining
    }

    /// The longest time until an estimated end: a year, in seconds.
    private static let maxEstimateSeconds = 365 * 86_400.0
}

extension Kind where Value == JSONFragment {
    /// Warnings as JSON text, in a response.
    fileprivate static var warnings: Kind {
        .output(.array(of: PushWarning.shape.kind.output)) { $1.value($0) }
    }
}

extension PushSummary {
    /// The columns of `push_summaries` that ``init(stored:)`` decodes.
    static let storedColumns: SQL = """
        push.id, push.name, push.created_by, push.created_by_key, push.kind, push.state, push.reason, push.audience, push.to_testers,
            push.counted_users, push.awaits_approval, push.approved_by, push.approved_at, push.stopped_by, push.last_tested_at,
            push.exclusion, push.waits_for, push.delivery, push.users_per_second, push.send_at, push.expires_at, push.created_at,
            push.started_at, push.finished_at, push.first_words, push.message_sha256, push.warnings,
            push.users, push.users_sent, push.users_failed, push.users_uncertain, push.users_skipped, push.users_may_repeat,
            push.batches, push.batches_sent, push.batches_failed, push.batches_uncertain, push.users_opened,
            push.users_no_device, push.users_excluded, push.users_without_consent, push.users_unsent, push.unsent_cause, push.is_prepared,
            push.users_unanswered
        """

    /// The columns of `push_summaries`, and what depends on the hours for advertising, which are `$1`.
    static let columns: SQL = """
        \(storedColumns),
            push_shown_state(push.state, push.kind, push.to_testers, (SELECT advertising_ends($1) IS NOT NULL)),
            CASE
                WHEN push.kind = 'advertising' AND NOT push.to_testers
                    AND (push.state IN ('proposed', 'scheduled', 'preparing', 'sending') OR push.awaits_approval)
                    THEN advertising_begins($1, GREATEST(clock_timestamp(), push.send_at))
            END
        """

    /// Decodes ``storedColumns``: a push in the state that is stored, without what depends on the hours for advertising.
    init(stored column: inout ColumnCursor) throws {
        try self.init(
            id: column.next(),
            name: column.next(),
            createdBy: column.next(),
            createdByKey: column.next(),
            kind: column.next(String?.self).flatMap(PushKind.init(rawValue:)),
            state: PushState(rawValue: column.next()) ?? .halted,
            reason: column.next(),
            audience: column.next(),
            toTesters: column.next(),
            countedUsers: column.next(),
            awaitsApproval: column.next(),
            approvedBy: column.next(),
            approvedAt: column.next(),
            stoppedBy: column.next(),
            lastTestedAt: column.next(),
            exclusion: column.next(),
            waitsFor: column.next(),
            delivery: Delivery(rawValue: column.next()) ?? .atLeastOnce,
            usersPerSecond: column.next(),
            sendAt: column.next(),
            expiresAt: column.next(),
            createdAt: column.next(),
            startedAt: column.next(),
            finishedAt: column.next(),
            firstWords: column.next(),
            messageDigest: column.next(),
            warnings: column.next(),
            users: PushCounts(
                total: column.next(),
                sent: column.next(),
                failed: column.next(),
                uncertain: column.next(),
                skipped: column.next(),
                mayRepeat: column.next()
            ),
            batches: PushCounts(
                total: column.next(),
                sent: column.next(),
                failed: column.next(),
                uncertain: column.next()
            ),
            opened: column.next(),
            unreached: UnreachedCounts(stored: &column)
        )
    }

    /// Decodes ``columns``.
    init(_ row: PostgresRow) throws {
        self = try row.decode { column in
            var push = try PushSummary(stored: &column)
            push.state = PushState(rawValue: try column.next()) ?? push.state
            push.waitsUntil = try column.next()
            return push
        }
        try addExpiryWarning()
    }

    /// Warns of advertising that expires before the hours that it waits for: it was approved late, or the hours have changed.
    private mutating func addExpiryWarning() throws {
        guard let waitsUntil, let expiresAt, expiresAt <= waitsUntil else { return }
        let warning = PushWarning(
            .expiresBeforeHours,
            nil,
            "The push expires at \(expiresAt.rfc3339), before advertising may be sent again at \(waitsUntil.rfc3339), so that nothing "
                + "more of it is sent. Cancel it, and send a copy."
        )
        let stored = try JSONValue(parsing: warnings).array ?? []
        warnings = JSONValue.array(stored + (try JSONValue(parsing: [warning].json).array ?? [])).bytes()
    }
}
