import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Runtime
import Schemas

// The parsing of pushes from requests, and their JSON in responses.

extension NewPush {
    /// The fields of `POST /v1/pushes` that describe the push.
    static let fields: [any FieldDeclaration] = [
        nameField, kindField, audienceField, toTestersField, exceptField, messageField, sendAtField, expiresAtField,
        usersPerSecondField, deliveryField, skipUnknownField,
    ]

    private static let nameField = Field.optional("name", .text(1...200), "A name to show.")
    private static let kindField = Field.optional(
        "kind",
        Kind<PushKind>.choice,
        "Whether the push is advertising, which waits outside the hours for it, needs the mark (광고) in its texts, and is sent only to "
            + "users who have consented."
    )
    private static let audienceField = Field.optional(
        "audience",
        .audience,
        "The users to send to. Required, except with `to_testers`."
    )
    private static let toTestersField = Field.optional(
        "to_testers",
        .boolean,
        default: false,
        shown: false,
        "Whether to send to the users of the setting `pushes.testers`, in place of an audience. Such a push needs no approval."
    )
    private static let exceptField = Field.optional(
        "except",
        .exclusion,
        "Users who are left out although they belong to the audience: those of any member."
    )
    private static let messageField = Field.required(
        "message",
        .pushMessage,
        "The message, like Kakao's `push_message`: `for_apns`, and `for_gcm` or `for_fcm`."
    )
    private static let sendAtField = Field.optional("send_at", .time, "When to send. Without it, at once.")
    private static let expiresAtField = Field.optional("expires_at", .time, "The time after which nothing is sent.")
    private static let usersPerSecondField = Field.optional(
        "users_per_second",
        Kind<Int32>.integer(1...1_000_000),
        "The maximum rate."
    )
    private static let deliveryField = Field.optional(
        "delivery",
        .delivery,
        default: .atLeastOnce,
        shown: .string(Delivery.atLeastOnce.rawValue),
        "Whether a request whose response was lost is sent again, so that users may be reached twice."
    )
    private static let skipUnknownField = Field.optional(
        "skip_unknown",
        .boolean,
        default: true,
        shown: true,
        "Whether users without a device here are skipped. `false` is possible for `uuids` and stored audiences only."
    )

    /// Reads the body of `POST /v1/pushes`.
    ///
    /// - Throws: ``Problem`` for a missing or invalid field.
    init(_ call: Call, _ settings: PushSettings) throws {
        let toTesters = try call[Self.toTestersField]
        self.init(
            audience: try Self.audience(try call[Self.audienceField], toTesters: toTesters, settings),
            message: try call[Self.messageField]
        )
        self.toTesters = toTesters
        approvalAboveUsers = toTesters ? nil : settings.approvalAboveUsers.map(Int64.init)
        kind = try call[Self.kindField]
        try checkKind(settings, messageField: Self.messageField.name)
        exclusion = try call[Self.exceptField]
        createdBy = call.caller.key
        name = try call[Self.nameField]
        delivery = try call[Self.deliveryField]
        skipsUnknown = try call[Self.skipUnknownField]
        guard skipsUnknown || audience.namesUsers else {
            throw Problem.field("skip_unknown", "true unless the audience is uuids or a stored audience")
        }
        usersPerSecond = try call[Self.usersPerSecondField] ?? settings.defaultUsersPerSecond.map(Int32.init(clamping:))
        sendAt = try call[Self.sendAtField]
        expiresAt = try call[Self.expiresAtField]
        if let expiresAt, expiresAt <= sendAt ?? Date() {
            throw Problem.field("expires_at", sendAt == nil ? "in the future" : "after send_at")
        }
    }

    /// Returns the audience of a request.
    ///
    /// - Throws: ``Problem`` if there is none, or one besides the testers, or if the settings have no testers.
    private static func audience(
        _ given: PushAudience?,
        toTesters: Bool,
        _ settings: PushSettings
    ) throws -> PushAudience {
        guard toTesters else {
            guard let given else { throw Problem.field("audience", PushAudience.allowed) }
            return given
        }
        guard given == nil else {
            throw Problem.field("audience", "absent with to_testers, which sends to the testers only")
        }
        guard !settings.testers.isEmpty else {
            throw Problem(of: .notConfigured, "There are no testers. Set pushes.testers.")
        }
        return .users(settings.testers)
    }
}

extension NewPush {
    /// Applies the rules for advertising.
    ///
    /// - Parameter messageField: The field of the request that has the message.
    /// - Throws: ``Problem`` for a missing kind, or for advertising without its mark.
    mutating func checkKind(_ settings: PushSettings, messageField: String) throws {
        guard kind != nil || !settings.requiresKind else {
            throw Problem.field("kind", "advertising or informational, as the setting pushes.require_kind demands")
        }
        guard kind == .advertising else { return }
        guard message.isMarkedAsAdvertising else {
            throw Problem.field(
                messageField,
                "a message with \(PushMessage.advertisingMark) in for_apns.message and in a text of custom_field, since the push is advertising"
            )
        }
        consentTag = settings.advertisingTag
    }
}

extension Kind where Value == PushState {
    static var pushState: Kind { .choice.named("PushState") }
}

extension Kind where Value == PushMessage {
    /// A message in the format of either version of Kakao's API, which its members show.
    fileprivate static var pushMessage: Kind {
        let (v1, v2) = (PushVersion.v1.androidMember, PushVersion.v2.androidMember)
        return .input(
            .object(havingAnyOf: ["for_apns", v1, v2], butNotAllOf: [v1, v2]).named("PushMessage"),
            allowed: "an object with for_apns, and at most one of for_gcm and for_fcm, like Kakao's push_message"
        ) { value throws(InvalidValue) in
            guard let message = try value.structured().object,
                message.has("for_apns") || message.has(v1) || message.has(v2), !message.has(v1) || !message.has(v2)
            else { throw InvalidValue() }
            return PushMessage(message, version: message.has(v2) ? .v2 : .v1)
        }
    }
}

extension Kind where Value == PushAudience {
    /// The audience of a push: an object with one member, which names the kind of audience.
    fileprivate static var audience: Kind {
        let schemas = PushAudience.kinds.map { Schema.object([($0.member, $0.schema, true)]).named($0.name) }
        let schema = Schema.oneOf(schemas).named("PushAudience")
        return .input(schema, allowed: PushAudience.allowed) { value throws(InvalidValue) in
            guard let object = try value.structured().object, object.count == 1, let member = object.members.first,
                let kind = PushAudience.kinds.first(where: { $0.member == member.name })
            else { throw InvalidValue() }
            return try kind.read(member.value)
        }
    }
}

extension PushAudience {
    /// One of the kinds of audience: the member that names it, its schema, and the reading of the member.
    fileprivate struct AudienceKind: Sendable {
        let member: String
        let name: String
        let schema: Schema
        let read: @Sendable (JSONValue) throws(InvalidValue) -> PushAudience

        init<Value>(
            _ member: String,
            _ name: String,
            _ kind: Kind<Value>,
            _ make: @escaping @Sendable (Value) -> PushAudience
        ) {
            self.member = member
            self.name = name
            schema = kind.input
            read = { value throws(InvalidValue) in make(try kind.read(value)) }
        }
    }

    fileprivate static let kinds: [AudienceKind] = [
        AudienceKind("uuids", "UsersAudience", .userIDs(count: 1...maximumUsers)) { .users($0) },
        AudienceKind("audience", "StoredAudience", .audienceName) { .stored($0) },
        AudienceKind("tags_any", "AnyTagAudience", .texts(count: 1...50, length: 1...64)) { .tagsAny($0) },
        AudienceKind("tags_all", "AllTagsAudience", .texts(count: 1...50, length: 1...64)) { .tagsAll($0) },
        AudienceKind("everyone", "EveryoneAudience", .alwaysTrue) { .everyone },
    ]

    fileprivate static let allowed = """
        one of {"uuids":[…]} (1 to \(maximumUsers) user ids), {"audience":"name"}, {"tags_any":[…]}, {"tags_all":[…]} (1 to 50 tags), \
        {"everyone":true}
        """
}

extension Kind where Value == Void {
    /// The value `true`, which says nothing but that the member is there.
    fileprivate static var alwaysTrue: Kind {
        .input(.constant(true), allowed: "true") { value throws(InvalidValue) in
            guard case .bool(true) = value else { throw InvalidValue() }
        }
    }
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
            .nullable("approved_by", .text, "The name of the operator key that approved it.", \.approvedBy),
            .nullable("approved_at", .time, "When it was approved.", \.approvedAt),
            .nullable(
                "stopped_by",
                .text,
                "The name of the operator key that last paused, canceled or rejected it; null once it was resumed.",
                \.stoppedBy
            ),
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
                "When advertising may be sent again, if it waits for that: `pushes.advertising_hours`.",
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
            .nullable("users_per_second", Kind<Int32>.number, "The maximum rate.", \.usersPerSecond),
            .nullable("estimated_end", .time, "When it ends at its rate so far.", \.estimatedEnd),
        ]
    )

    /// The time at which the push ends at its average rate so far.
    ///
    /// `nil` if the push is not being sent, if the rate is unknown, or if the end is more than a year away. Such an
    /// estimate is meaningless: the push has hardly begun, or a clock was set.
    private var estimatedEnd: Date? {
        let finished = users.sent + users.failed + users.uncertain
        guard state == .sending, let startedAt, finished > 0, users.pending > 0 else { return nil }
        let now = Date()
        let remaining = now.timeIntervalSince(startedAt) * Double(users.pending) / Double(finished)
        guard (0...Self.longestEstimate).contains(remaining) else { return nil }
        return now + remaining
    }

    /// The longest time until an estimated end: a year, in seconds.
    private static let longestEstimate = 365 * 86_400.0
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

    fileprivate static let shape = Shape<PushCounts>("PushCounts", members)
    fileprivate static let usersShape = Shape<PushCounts>(
        "PushUserCounts",
        members + [
            .member("may_repeat", .count, "Those of finished batches that may have been reached twice.", \.mayRepeat)
        ]
    )
}

extension BatchSummary {
    /// The members of a batch.
    static let shape = Shape<BatchSummary>(
        "Batch",
        [
            .member("number", Kind<Int32>.number, "The number of the batch within its push.", \.number),
            .member("state", .text(oneOf: BatchState.allCases.map(\.rawValue)), "Its state.", \.state),
            .array("uuids", .userID, "Its users.", \.userIDs),
            .member("attempts", Kind<Int32>.number, "The number of requests to Kakao.", \.attempts),
            .member("may_repeat", .boolean, "Whether users may have been reached twice.", \.mayRepeat),
            .nullable("kakao_status", Kind<Int32>.number, "The status of Kakao's last response.", \.kakaoStatus),
            .nullable("kakao_code", Kind<Int32>.number, "The error code of Kakao's last response.", \.kakaoCode),
            .nullable("kakao_message", .text, "The error text of Kakao's last response.", \.kakaoMessage),
            .nullable("next_attempt_at", .time, "When it is sent again.", \.nextAttemptAt),
            .nullable("finished_at", .time, "When it ended.", \.finishedAt),
        ]
    )
}
