import Endpoints
import FoundationEssentials
package import JSON
import KakaoAPI
import Runtime

/// The audience of a push.
package enum PushAudience: Sendable {
    /// The maximum number of user ids in a request.
    package static let maximumUsers = 10_000

    case users([Int64])
    /// An audience that is stored under a name.
    case stored(AudienceName)
    /// Users with a device that has any of these tags.
    case tagsAny([String])
    /// Users with a device that has all of these tags.
    case tagsAll([String])
    /// Users with a device.
    case everyone

    /// Whether it lists its users, regardless of their devices.
    var namesUsers: Bool {
        switch self {
        case .users, .stored: true
        case .tagsAny, .tagsAll, .everyone: false
        }
    }

    /// The name of the stored audience; `nil` for another kind.
    var storedName: AudienceName? {
        if case .stored(let name) = self { name } else { nil }
    }

    /// The maximum number of user ids that are shown. The batches show all of them.
    private static let maximumShown = 100

    /// The audience as it is shown: as in the request, but with a long list of users truncated.
    package var json: JSONValue {
        switch self {
        case .users(let ids) where ids.count > Self.maximumShown:
            [
                "uuids": .array(ids.prefix(Self.maximumShown).map { .string(String($0)) }),
                "uuids_total": .number(JSONNumber(ids.count)),
            ]
        case .users(let ids): ["uuids": .array(ids.map { .string(String($0)) })]
        case .stored(let name): ["audience": .string(name.text)]
        case .tagsAny(let tags): ["tags_any": .array(tags.map { .string($0) })]
        case .tagsAll(let tags): ["tags_all": .array(tags.map { .string($0) })]
        case .everyone: ["everyone": true]
        }
    }
}

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
    /// The tag that all of a user's devices need; `nil` if none is needed.
    var consentTag: String?
    /// The users who are left out.
    var exclusion: PushExclusion?
    let message: PushMessage
    var bypass = false
    /// Whether users without a device here that the message addresses are skipped. If not, Kakao decides, because it
    /// may have devices of these users.
    var skipsUnknown = true
    var delivery = Delivery.atLeastOnce
    var usersPerSecond: Int32?
    var sendAt: Date?
    var expiresAt: Date?

    /// The push types that the message addresses: a user without a device of these types is skipped. Empty if no user
    /// is skipped.
    var platforms: [String] { bypass || !skipsUnknown ? [] : message.platforms }

    /// The maximum number of users in a batch, which `usersPerSecond` limits too.
    var batchUsers: Int32 { min(usersPerSecond ?? .max, Int32(SendPush.maximumUsers)) }
}

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

/// A push as it is shown.
struct PushSummary: Sendable {
    let id: UUID
    let name: String?
    /// The name of the operator key that created it; `nil` for a push of an earlier version.
    let createdBy: String?
    /// The id of that key, which is not shown; `nil` for a push of an earlier version.
    let createdByKey: UUID?
    let kind: PushKind?
    let state: PushState
    let reason: String?
    /// The audience as it is shown: a JSON object.
    let audience: [UInt8]
    /// Whether the audience are the testers of the settings.
    let toTesters: Bool
    /// The users to send to, as counted when it was created; `nil` if it could not need an approval.
    let countedUsers: Int64?
    /// Whether it waits for an approval.
    let awaitsApproval: Bool
    /// The name of the operator key that approved it.
    let approvedBy: String?
    let approvedAt: Date?
    /// The name of the operator key that last paused, canceled or rejected it; `nil` once it was resumed.
    let stoppedBy: String?
    /// When the same message was last sent to a tester.
    let lastTestedAt: Date?
    /// The users who are left out, as it is shown: a JSON object.
    let exclusion: [UInt8]?
    /// The excluded pushes that it waits for.
    let waitsFor: [UUID]
    /// The time until which advertising has to wait; `nil` if the push does not wait for it.
    let waitsUntil: Date?
    let delivery: Delivery
    let usersPerSecond: Int32?
    let sendAt: Date?
    let expiresAt: Date?
    let createdAt: Date
    let startedAt: Date?
    let finishedAt: Date?
    let users: PushCounts
    let batches: PushCounts
}

/// A batch as it is shown.
struct BatchSummary: Sendable {
    let number: Int32
    let state: String
    let userIDs: [Int64]
    let attempts: Int32
    let mayRepeat: Bool
    let kakaoStatus: Int32?
    let kakaoCode: Int32?
    let kakaoMessage: String?
    let nextAttemptAt: Date?
    let finishedAt: Date?
}
