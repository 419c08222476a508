import Endpoints
package import FoundationEssentials
package import JSON
import Schemas

/// The member `except` of `POST /v1/pushes`: which users do not get the push although they belong to its audience.
package struct PushExclusion: Sendable, Equatable {
    /// The maximum number of tags.
    package static let maximumTags = 50
    /// The maximum number of earlier pushes.
    package static let maximumPushes = 10

    /// Users with a device that has any of these tags.
    package var tags: [String] = []
    /// The users of a stored audience.
    package var audience: AudienceName?
    /// The users who have got one of these earlier pushes, may have got it, or will still get it.
    package var pushes: [UUID] = []

    package init() {}

    /// Whether it leaves out nobody.
    package var isEmpty: Bool { tags.isEmpty && audience == nil && pushes.isEmpty }

    /// The exclusion as in the request.
    package var json: JSONValue {
        // In PostgreSQL's order (jsonb), so that the response to the request is like later ones.
        var object = JSONObject()
        if !pushes.isEmpty { object["pushes"] = .array(pushes.map { .string($0.lowercased) }) }
        if let audience { object["audience"] = .string(audience.text) }
        if !tags.isEmpty { object["tags_any"] = .array(tags.map { .string($0) }) }
        return .object(object)
    }
}

extension Kind where Value == PushExclusion {
    private static let tags = Kind<[String]>.texts(count: 1...PushExclusion.maximumTags, length: 1...64)
    private static let audience = Kind<AudienceName>.audienceName
    private static let pushes = Kind<UUID>.uuid.array(count: 1...PushExclusion.maximumPushes)

    /// An object with at least one of the members, each of which leaves out users.
    static var exclusion: Kind {
        let schema = Schema.object([
            ("tags_any", tags.input.described("Users with a device that has any of these tags."), false),
            ("audience", audience.input.described("The users of this stored audience."), false),
            (
                "pushes",
                pushes.input.described(
                    "The users who have got one of these earlier pushes, may have got it, or will still get it."
                ), false
            ),
        ])
        return .input(
            schema.named("PushExclusion"),
            allowed: """
                an object with at least one of tags_any (1 to \(PushExclusion.maximumTags) tags), audience (the name of a stored audience) and \
                pushes (the ids of 1 to \(PushExclusion.maximumPushes) pushes)
                """
        ) { value throws(InvalidValue) in
            guard let object = try value.structured().object, !object.isEmpty else { throw InvalidValue() }
            var exclusion = PushExclusion()
            for member in object.members {
                switch member.name {
                case "tags_any": exclusion.tags = try tags.read(member.value)
                case "audience": exclusion.audience = try audience.read(member.value)
                case "pushes": exclusion.pushes = try pushes.read(member.value)
                default: throw InvalidValue()
                }
            }
            return exclusion
        }
    }
}
