package import JSON
import Schemas

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
    var json: JSONValue {
        switch self {
        case .users(let ids) where ids.count > Self.maximumShown:
            [
                "uuids": .array(ids.prefix(Self.maximumShown).map { .string(String($0)) }),
                "uuids_total": .number(JSONNumber(ids.count)),
            ]
        case .users, .stored, .tagsAny, .tagsAll, .everyone: requestJSON
        }
    }

    /// The audience as a request names it, with all of its users.
    package var requestJSON: JSONValue {
        switch self {
        case .users(let ids): ["uuids": .array(ids.map { .string(String($0)) })]
        case .stored(let name): ["audience": .string(name.text)]
        case .tagsAny(let tags): ["tags_any": .array(tags.map { .string($0) })]
        case .tagsAll(let tags): ["tags_all": .array(tags.map { .string($0) })]
        case .everyone: ["everyone": true]
        }
    }
}

extension Kind where Value == PushAudience {
    /// The audience of a push: an object with one member, which names the kind of audience.
    static var audience: Kind {
        let schemas = PushAudience.kinds.map { Schema.object([($0.member, $0.schema, true)]).named($0.name) }
        let schema = Schema.oneOf(schemas).named("PushAudience")
        return .input(schema, allowed: PushAudience.allowed) { value throws(InvalidValue) in
            guard let object = try value.structured().object, object.count == 1, let member = object.members.first,
                let kind = PushAudience.kinds.first(where: { $0.member == member.name || $0.alias == member.name })
            else { throw InvalidValue() }
            return try kind.read(member.value)
        }
    }
}

extension PushAudience {
    /// One of the kinds of audience: the member that names it, its schema, and the reading of the member.
    fileprivate struct AudienceKind: Sendable {
        let member: String
        /// Another name of the member that is accepted, as for a field of these users.
        var alias: String? { member == "uuids" ? "user_ids" : nil }
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

    static let allowed = """
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
