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
        router.control(.get, path) { Self.response(users.user(try $0.userID)) }
        router.control(.post, path) { request in
            let userID = try request.userID
            return Self.response(try set(userID, ControlInput(bodyOf: request, known: Self.members)))
        }
    }

    /// Changes Kakao's data about a user. Members that are absent from the input stay as they are.
    ///
    /// - Throws: ``Problem`` that names the field, with nothing changed.
    @discardableResult
    func set(_ userID: Int64, _ input: ControlInput) throws(Problem) -> AppUsers.User {
        try users.update(userID) { stored throws(Problem) in
            var user = stored
            if let isLinked = try input.bool("linked") { user.isLinked = isLinked }
            if let hasSignedUp = try input.bool("has_signed_up") { user.hasSignedUp = hasSignedUp }
            if let scopes = try input.strings("scopes") { user.scopes = scopes }
            if let tags = try Self.tags(input) {
                user.terms = tags.map { AppUsers.AgreedTerms(tag: $0, by: .login) }
            }
            let properties = try input.object("properties", known: AppDefinition.propertyKeys)
            for (name, value) in properties?.members ?? [] { user.properties[name] = .string(value.anyText) }
            let account = try input.object("account", known: AppDefinition.accountMembers)
            for (name, value) in account?.members ?? [] { user.account[name] = value.isNull ? .none : value }
            let addresses = try input.records("shipping_addresses", ShippingAddress.record)
            if let addresses { user.addresses = addresses }
            if let usesTalk = try input.bool("talk_user") { user.talk.usesTalk = usesTalk }
            if let allowsMessages = try input.bool("allows_messages") { user.talk.allowsMessages = allowsMessages }
            if let isTeamMember = try input.bool("team_member") { user.talk.isTeamMember = isTeamMember }
            for (id, kind) in try Self.channels(input) { user.talk.channels[id] = ChannelRelation(kind: kind) }
            stored = user
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

    private static func channels(_ input: ControlInput) throws(Problem) -> [String: ChannelRelation.Kind] {
        let known = Set(AppDefinition.channels.map(\.publicID))
        guard let object = try input.object("channels", known: known) else { return [:] }
        let relations = try ControlInput(object, known: Set(object.members.map(\.name)))
        var kinds: [String: ChannelRelation.Kind] = [:]
        for (id, _) in object.members { kinds[id] = try relations.choice(id) }
        return kinds
    }

    private static func response(_ user: AppUsers.User) -> Response {
        .json {
            $0.member("user_id", String(user.id))
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
    }
}
