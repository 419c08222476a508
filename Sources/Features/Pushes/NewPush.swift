import Endpoints
import FoundationEssentials
import HTTPServer
import JSON
import KakaoAPI
import Runtime
import Schemas

/// A requested push that is not stored yet.
struct NewPush: Sendable {
    var id = UUID.v7()
    var name: String?
    /// The operator key that creates it.
    var createdBy: KeyIdentity?
    let audience: PushAudience
    /// Whether the audience are the testers of the settings.
    var toTesters = false
    /// The number of users above which it needs an approval; `nil` if it needs none.
    var approvalAboveUsers: Int64?
    /// Its users, if it may need an approval.
    var counted: CountedUsers?
    /// `nil` if the request did not say.
    var kind: PushKind?
    /// When the hours for advertising begin that it waits for; `nil` if it waits for none.
    var waitsUntil: Date?
    /// The users who are left out.
    var exclusion: PushExclusion?
    let message: PushMessage
    /// What phones show of the message.
    var preview = PushPreview()
    var bypass = false
    /// Whether it gets a warning when it is stored, if Kakao has not confirmed all changes of its users' devices.
    var checksDevices = false
    /// Whether users without a device here that the message addresses are skipped. If not, Kakao decides, because it
    /// may have devices of these users.
    var skipsUnknown = true
    var delivery = Delivery.atLeastOnce
    var usersPerSecond: Int32?
    var times = SendingTimes()

    /// The push types that the message addresses: a user without a device of these types is skipped. Empty if no user
    /// is skipped.
    var platforms: [String] { bypass || !skipsUnknown ? [] : message.platforms }

    /// The maximum number of users in a batch, which `usersPerSecond` limits too.
    var batchUsers: Int32 { min(usersPerSecond ?? .max, Int32(SendPush.maximumUsers)) }

    /// An object that a push refers to.
    enum NamedObject: String, Sendable {
        case audience
        case excludedAudience
        case excludedPush
    }
}

// MARK: Reading

extension NewPush {
    /// The fields of `POST /v1/pushes` that describe the push.
    static let fields: [any FieldDeclaration] =
        [
            nameField, kindField, audienceField, toTestersField, exceptField, messageField,
        ] + SendingTimes.fields + [usersPerSecondField, deliveryField, skipUnknownField]

    /// The fields of `POST /v1/pushes/{id}/copy` that describe the new push.
    static let fieldsOfCopies: [any FieldDeclaration] = [nameField, kindField] + SendingTimes.fields

    static let nameField = Field.optional("name", .text(1...200), "A name to show.")
    static let kindField = Field.optional(
        "kind",
        Kind<PushKind>.choice,
        "Whether the push is advertising, which waits outside the hours for it, begins with the mark (광고), and is sent only to "
            + "users who have consented."
    )
    private static let audienceField = Field.optional(
        "audience",
        .audience,
        "The users to send to. Required, except with `to_testers`."
    )
    private static let toTestersField = Field.flag(
        "to_testers",
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
    /// - Parameter kakaoVersion: The version of Kakao's API that the server calls.
    /// - Throws: ``Problem`` for a missing or invalid field.
    init(_ call: Call, _ settings: PushSettings, kakaoVersion: PushVersion) throws {
        let toTesters = try call[Self.toTestersField]
        self.init(
            audience: try Self.audience(try call[Self.audienceField], toTesters: toTesters, settings),
            message: try call[Self.messageField]
        )
        self.toTesters = toTesters
        approvalAboveUsers = toTesters ? nil : settings.approvalAboveUsers.map(Int64.init)
        kind = try call[Self.kindField]
        try check(message.object, in: Self.messageField.name, settings, kakaoVersion: kakaoVersion)
        exclusion = try call[Self.exceptField]
        createdBy = call.caller.key
        name = try call[Self.nameField]
        delivery = try call[Self.deliveryField]
        skipsUnknown = try call[Self.skipUnknownField]
        guard skipsUnknown || audience.namesUsers else {
            throw Problem.field(
                "skip_unknown",
                "true",
                "Only a push to uuids or a stored audience can reach users without a device here."
            )
        }
        usersPerSecond = try call[Self.usersPerSecondField] ?? settings.defaultUsersPerSecond.map(Int32.init(clamping:))
        times = try SendingTimes(call)
    }

    /// Returns the audience of a request.
    ///
    /// - Throws: ``Problem`` if there is none, or one besides the testers, or if the settings have no testers.
    static func audience(
        _ given: PushAudience?,
        toTesters: Bool,
        _ settings: PushSettings
    ) throws -> PushAudience {
        guard toTesters else {
            guard let given else { throw Problem.field("audience", PushAudience.allowed) }
            return given
        }
        guard given == nil else {
            throw Problem.field("audience", "absent", "With to_testers, the push is sent to the testers only.")
        }
        guard !settings.testers.isEmpty else {
            throw Problem(of: .notConfigured, "There are no testers. Set pushes.testers.")
        }
        return .users(settings.testers)
    }

    /// Applies the rules for the kind of the push, and finds out what phones show of its message.
    ///
    /// - Parameters:
    ///   - object: The message as JSON.
    ///   - field: The field of the request that has it.
    ///   - kakaoVersion: The version of Kakao's API that the server calls.
    /// - Throws: ``Problem`` for a missing kind, for advertising without its mark, or for a member with the name of `pushes.id_field`.
    mutating func check(
        _ object: JSONObject,
        in field: String,
        _ settings: PushSettings,
        kakaoVersion: PushVersion
    ) throws {
        guard kind != nil || !settings.requiresKind else {
            throw Problem.field("kind", "advertising or informational", "The setting pushes.require_kind demands it.")
        }
        let conditions = PushPreview.Conditions(
            settings,
            kakaoVersion: kakaoVersion,
            format: message.version,
            kind: kind,
            bypass: bypass
        )
        preview = PushPreview(object, conditions)
        if let fault = preview.markFault { throw Problem.field(field, fault.allowed) }
        if let taken = preview.takenIDField { throw Problem.field(field, PushPreview.allowed(without: taken)) }
    }
}

// MARK: Waiting for the hours

extension NewPush {
    /// The problem of advertising that expires before the hours that it waits for; `nil` if it can be sent.
    var expiryProblem: Problem? {
        guard let waitsUntil, let expiresAt = times.expiresAt, expiresAt <= waitsUntil else { return nil }
        let (begin, end) = (waitsUntil.rfc3339, expiresAt.rfc3339)
        return Problem(
            of: .invalidField,
            "expires_at \(end) is too early: advertising may be sent from \(begin) on (pushes.advertising_hours), so nothing could be sent.",
            members: [
                "field": "expires_at", "allowed": .string("later than \(begin)"), "given": .string(end),
                "waits_until": .string(begin),
            ]
        )
    }
}

// MARK: Showing

extension NewPush {
    /// Returns the push as it is shown before anything is sent.
    func summary(createdAt: Date, lastTestedAt: Date?) -> PushSummary {
        PushSummary(
            id: id,
            name: name,
            createdBy: createdBy?.name,
            createdByKey: createdBy?.id,
            kind: kind,
            // As `push_shown_state` in the database.
            state: waitsUntil != nil && initialState == .preparing ? .scheduled : initialState,
            audience: audience.json.bytes(),
            toTesters: toTesters,
            countedUsers: counted?.number,
            awaitsApproval: needsApproval,
            lastTestedAt: lastTestedAt,
            exclusion: exclusion?.json.bytes(),
            waitsUntil: waitsUntil,
            delivery: delivery,
            usersPerSecond: usersPerSecond,
            sendAt: times.sendAt,
            expiresAt: times.expiresAt,
            createdAt: createdAt,
            firstWords: preview.firstWords,
            messageDigest: message.digest,
            warnings: preview.warnings.json
        )
    }
}
