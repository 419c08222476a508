import HTTPServer
import HTTPTypes
import JSON
import Schemas

/// The controls `/sandbox/talk/*`, which show and change what KakaoTalk knows of the app (`docs/sandbox.md`).
struct TalkControl: Sendable {
    let talk: TalkStore
    let users: AppUsers

    func addRoutes(to router: inout Router) {
        router.control(.post, "/sandbox/talk/friends") { request in
            let count = try setFriends(ControlInput(bodyOf: request, known: ["users", "consent"]))
            return .json { $0.member("friendships", count) }
        }
        router.command(.delete, "/sandbox/talk/friends") { _ in talk.removeFriends() }
        router.control(.get, "/sandbox/talk/friends/{user_id}", friends)
        router.control(.get, "/sandbox/talk/app") { _ in app(talk.settings) }
        router.control(.post, "/sandbox/talk/app") { request in
            app(try setApp(ControlInput(bodyOf: request, known: Self.members)))
        }
        router.command(.delete, "/sandbox/talk/app") { _ in talk.reset() }
        router.control(.get, "/sandbox/talk/messages", messages)
        router.command(.delete, "/sandbox/talk/messages") { _ in talk.deleteMessages() }
        router.control(.get, "/sandbox/talk/messages/totals") { _ in .json(talk.totals) }
        router.on(.get, "/sandbox/talk/messages/repeated", repeated)
    }

    // MARK: Friends

    /// Sets the friends of users: the body of `POST /sandbox/talk/friends`.
    ///
    /// - Returns: The number of all friendships.
    /// - Throws: ``Problem`` that names the field, with nothing changed.
    @discardableResult
    func setFriends(_ input: ControlInput) throws(Problem) -> Int {
        let consents = try input.bool("consent") ?? true
        let now = talk.now
        var friends: [Int64: [TalkStore.Friendship]] = [:]
        for value in try input.array("users") {
            let user = try ControlInput(value, in: "users", known: ["user_id", "friends"])
            let userID = try user.requiredInteger("user_id", in: 1...Int64.max)
            friends[userID] = try user.array("friends").map { value throws(Problem) in
                try Self.friendship(value, now)
            }
        }
        guard let count = talk.setFriends(friends) else {
            throw Problem(
                .conflict,
                "There can be at most \(TalkStore.maximumFriendships) friendships. Remove all with DELETE /sandbox/talk/friends."
            )
        }
        if consents {
            users.agree(friends.keys, to: [AppDefinition.friends, AppDefinition.talkMessage])
            users.agree(Set(friends.values.joined().map(\.userID)), to: [AppDefinition.friends])
        }
        return count
    }

    /// Reads a friend: a user id, or an object.
    private static func friendship(_ value: JSONValue, _ now: Int64) throws(Problem) -> TalkStore.Friendship {
        if let userID = UserID.read(value) { return TalkStore.Friendship(userID: userID) }
        let input = try ControlInput(value, in: "friends", known: ["user_id", "favorite", "hidden", "new"])
        return TalkStore.Friendship(
            userID: try input.requiredInteger("user_id", in: 1...Int64.max),
            isFavorite: try input.bool("favorite") ?? false,
            isHidden: try input.bool("hidden") ?? false,
            since: try input.bool("new") ?? false ? now : 0
        )
    }

    private func friends(_ request: Request) throws -> Response {
        let userID = try request.userID
        return .json { json in
            json.member("user_id", String(userID))
            json.member("uuid", talk.uuids.uuid(of: userID))
            json.array("friends") { json in
                for friend in talk.friends(of: userID).sorted(by: { $0.userID < $1.userID }) {
                    json.object {
                        $0.member("user_id", String(friend.userID))
                        $0.member("uuid", talk.uuids.uuid(of: friend.userID))
                        $0.member("favorite", friend.isFavorite)
                        $0.member("hidden", friend.isHidden)
                    }
                }
            }
        }
    }

    // MARK: The app

    /// The quotas by the names of their members.
    private static let quotas: [(name: String, quota: any WritableKeyPath<MessageQuotas, Int?> & Sendable)] = [
        ("app", \.app), ("unreviewed_app", \.unreviewedApp), ("sender", \.sender), ("receiver", \.receiver),
        ("pair", \.pair), ("sender_month", \.senderMonth),
    ]
    /// The names of the members of `POST /sandbox/talk/app`.
    static let members: Set<String> = ["reviewed", "quotas", "memos_count_as_messages", "removed_templates"]

    /// Changes how KakaoTalk treats the app. Members that are absent from the input stay as they are.
    ///
    /// - Throws: ``Problem`` that names the field, with nothing changed.
    @discardableResult
    func setApp(_ input: ControlInput) throws(Problem) -> TalkSettings {
        try talk.update { settings throws(Problem) in
            if let isReviewed = try input.bool("reviewed") { settings.isReviewed = isReviewed }
            if let countsMemos = try input.bool("memos_count_as_messages") {
                settings.countsMemosAsMessages = countsMemos
            }
            if input.value("removed_templates") != nil {
                settings.removedTemplates = Set(try Self.removedTemplates(input))
            }
            guard let value = input.value("quotas") else { return }
            let quotas = try ControlInput(value, in: "quotas", known: Set(Self.quotas.map(\.name)))
            for (name, quota) in Self.quotas where value[name] != nil {
                settings.quotas[keyPath: quota] = try quotas.integer(name, in: 0...Int64(Int32.max)).map(Int.init)
            }
        }
    }

    private static func removedTemplates(_ input: ControlInput) throws(Problem) -> [Int64] {
        try input.array("removed_templates").map { value throws(Problem) in
            guard let id = value.integer else {
                throw ControlInput.problem("removed_templates", "must be template ids", allowed: "an array of integers")
            }
            return id
        }
    }

    private func app(_ settings: TalkSettings) -> Response {
        .json { json in
            json.member("reviewed", settings.isReviewed)
            json.object("quotas") { json in
                for (name, quota) in Self.quotas { json.member(name, settings.quotas[keyPath: quota]) }
            }
            json.member("memos_count_as_messages", settings.countsMemosAsMessages)
            json.member("removed_templates", settings.removedTemplates.sorted())
        }
    }

    // MARK: Messages

    private func messages(_ request: Request) throws -> Response {
        let query = try ControlInput(queryOf: request, known: ["sender_id", "receiver_id", "after", "limit"])
        let (after, limit) = try query.page()
        let page = talk.messages(
            from: try query.integer("sender_id", in: 1...Int64.max),
            to: try query.integer("receiver_id", in: 1...Int64.max),
            after: after,
            limit: limit
        )
        return .page(page, limit: limit, number: \.sequence)
    }

    private func repeated(_ request: Request) async throws -> Response {
        let query = try ControlInput(queryOf: request, known: ["limit"])
        let limit = try query.limit(default: 1000)
        let repeated = await offLoop { talk.repeated(limit: limit) }
        return .json { $0.member("items", repeated) }
    }
}
