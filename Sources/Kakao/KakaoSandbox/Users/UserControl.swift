import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Schemas

/// The controls `/sandbox/users/{user_id}`, which show and change what Kakao knows of a user (`docs/sandbox.md`).
struct UserControl: Sendable {
    /// The names of the members of the body.
    static let members: Set<String> = [
        "linked", "has_signed_up", "scopes", "service_terms", "properties", "account", "shipping_addresses",
        "talk_user", "allows_messages", "team_member", "channels",
    ]

    let users: AppUsers

    func addRoutes(to router: inout Router) {
        let path = "/sandbox/users/{user_id}"
        router.add(
            .get,
            path,
            .immediate { request in
                let userID = try request.userID
                return Self.response(users.user(userID), userID)
            }
        )
        router.add(
            .post,
            path,
            .immediate { request in
                let userID = try request.userID
                let input = try ControlInput(bodyOf: request, known: Self.members)
                return Self.response(try set(userID, input), userID)
            }
        )
    }

    /// Changes Kakao's data about a user. Members that are absent from the input stay as they are.
    ///
    /// - Throws: ``Problem`` that names the field, with nothing changed.
    @discardableResult
    func set(_ userID: Int64, _ input: ControlInput) throws(Problem) -> AppUsers.User {
        let isLinked = try input.bool("linked")
        let hasSignedUp = try input.bool("has_signed_up")
        let scopes = try input.strings("scopes")
        let tags = try Self.tags(input)
        let properties = try Self.members(input, "properties", known: AppDefinition.propertyKeys)
        let account = try Self.members(input, "account", known: AppDefinition.accountMembers)
        let addresses = try input.records("shipping_addresses", ShippingAddress.record)
        let usesTalk = try input.bool("talk_user")
        let allowsMessages = try input.bool("allows_messages")
        let isTeamMember = try input.bool("team_member")
        let channels = try Self.channels(input)
        return users.update(userID) { user in
            if let isLinked { user.isLinked = isLinked }
            if let hasSignedUp { user.hasSignedUp = hasSignedUp }
            if let scopes { user.scopes = scopes }
            if let tags { user.terms = tags.map { AppUsers.AgreedTerms(tag: $0, by: .login) } }
            for (name, value) in properties?.members ?? [] { user.properties[name] = .string(value.anyText) }
            for (name, value) in account?.members ?? [] { user.account[name] = value.isNull ? .none : value }
            if let addresses { user.addresses = addresses }
            if let usesTalk { user.talk.usesTalk = usesTalk }
            if let allowsMessages { user.talk.allowsMessages = allowsMessages }
            if let isTeamMember { user.talk.isTeamMember = isTeamMember }
            for (id, kind) in channels ?? [:] { user.talk.channels[id] = ChannelRelation(kind: kind) }
            return user
        }
    }

    private static func tags(_ input: ControlInput) throws(Problem) -> [String]? {
        let tags = try input.strings("service_terms")
        let known = AppDefinition.terms.map(\.tag)
        if let tag = tags?.first(where: { !known.contains($0) }) {
            let allowed = known.joined(separator: ", ")
            throw ControlInput.problem("service_terms", "has the unknown tag \(tag)", allowed: allowed)
        }
        return tags
    }

    private static func members(
        _ input: ControlInput,
        _ name: String,
        known: Set<String>
    ) throws(Problem) -> JSONObject? {
        guard let value = input.value(name) else { return nil }
        return try ControlInput.object(value, name, known: known)
    }

    private static func channels(_ input: ControlInput) throws(Problem) -> [String: ChannelRelation.Kind]? {
        let name = "channels"
        guard let object = try members(input, name, known: Set(AppDefinition.channels.map(\.publicID))) else {
            return nil
        }
        let relations = try ControlInput(object, known: Set(object.members.map(\.name)))
        var kinds: [String: ChannelRelation.Kind] = [:]
        for (id, _) in object.members { kinds[id] = try relations.choice(id) }
        return kinds
    }

    private static func response(_ user: AppUsers.User, _ userID: Int64) -> Response {
        var json = JSONWriter()
        json.object {
            $0.member("user_id", String(userID))
            $0.member("linked", user.isLinked)
            $0.member("has_signed_up", user.hasSignedUp)
            $0.member("connected_at", WallClock.text(unixMilliseconds: user.connectedAt))
            $0.member("scopes", user.scopes)
            $0.member("service_terms", user.terms.map(\.tag))
            $0.member("properties", user.properties)
            $0.member("account", user.account)
            $0.array("shipping_addresses") { array in
                for address in user.addresses {
                    array.element { ShippingAddress.record.write(address, &$0) }
                }
            }
            $0.member("talk_user", user.talk.usesTalk)
            $0.member("allows_messages", user.talk.allowsMessages)
            $0.member("team_member", user.talk.isTeamMember)
            $0.object("channels") { json in
                for (id, relation) in user.talk.channels.sorted(by: { $0.key < $1.key }) {
                    json.member(id, relation.kind.rawValue)
                }
            }
        }
        return .json(json.bytes)
    }
}
