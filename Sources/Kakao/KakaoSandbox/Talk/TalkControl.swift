import HTTPServer
import HTTPTypes
import JSON
import Schemas

/// The controls `/sandbox/talk/*`, which show and change what KakaoTalk knows of the app (`docs/sandbox.md`).
struct TalkControl: Sendable {
    private static let maximumLimit: Int64 = 10_000

    let talk: TalkStore
    let users: AppUsers

    func addRoutes(to router: inout Router) {
        router.add(.post, "/sandbox/talk/friends", .immediate { try setFriends($0) })
        router.add(
            .delete,
            "/sandbox/talk/friends",
            .immediate { _ in
                talk.removeFriends()
                return Response(.noContent)
            }
        )
        router.add(.get, "/sandbox/talk/friends/{user_id}", .immediate { try friends($0) })
        router.add(.get, "/sandbox/talk/app", .immediate { _ in app(talk.settings) })
        router.add(.post, "/sandbox/talk/app", .immediate { try setApp($0) })
        router.add(
            .delete,
            "/sandbox/talk/app",
            .immediate { _ in
                talk.reset()
                return Response(.noContent)
            }
        )
        router.add(.get, "/sandbox/talk/messages", .immediate { try messages($0) })
        router.add(
            .delete,
            "/sandbox/talk/messages",
            .immediate { _ in
                talk.forgetMessages()
                return Response(.noContent)
            }
        )
        router.add(.get, "/sandbox/talk/messages/totals", .immediate { _ in .json(talk.totals) })
        router.on(.get, "/sandbox/talk/messages/repeated") { try await repeated($0) }
    }

    // MARK: Friends

    private func setFriends(_ request: Request) throws -> Response {
        let count = try setFriends(ControlInput(bodyOf: request, known: ["users", "consent"]))
        var json = JSONWriter()
        json.object { $0.member("friendships", count) }
        return .json(json.bytes)
    }

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
        var json = JSONWriter()
        json.object { json in
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
        return .json(json.bytes)
    }

    // MARK: The app

    /// The quotas by the names of their members.
    private static let quotas: [(name: String, quota: any WritableKeyPath<MessageQuotas, Int?> & Sendable)] = [
        ("app", \.app), ("unreviewed_app", \.unreviewedApp), ("sender", \.sender), ("receiver", \.receiver),
        ("pair", \.pair), ("sender_month", \.senderMonth),
    ]
    /// The names of the members of `POST /sandbox/talk/app`.
    static let members: Set<String> = ["reviewed", "quotas", "memos_count_as_messages", "removed_templates"]

    private func setApp(_ request: Request) throws -> Response {
        app(try setApp(ControlInput(bodyOf: request, known: Self.members)))
    }

    /// Changes how KakaoTalk treats the app. Members that are absent from the input stay as they are.
    ///
    /// - Throws: ``Problem`` that names the field, with nothing changed.
    @discardableResult
    func setApp(_ input: ControlInput) throws(Problem) -> TalkSettings {
        let isReviewed = try input.bool("reviewed")
        let countsMemos = try input.bool("memos_count_as_messages")
        let removed = input.value("removed_templates") == nil ? nil : try input.array("removed_templates")
        let templates = try removed?.map { value throws(Problem) in
            guard let id = value.integer else {
                throw ControlInput.problem("removed_templates", "must be template ids", allowed: "an array of integers")
            }
            return id
        }
        var quotas = talk.settings.quotas
        if let value = input.value("quotas") {
            let known = Set(Self.quotas.map(\.name))
            let given = try ControlInput(value, in: "quotas", known: known)
            for (name, quota) in Self.quotas where value[name] != nil {
                quotas[keyPath: quota] = try given.integer(name, in: 0...Int64(Int32.max)).map(Int.init)
            }
        }
        return talk.update { [quotas] settings in
            settings.quotas = quotas
            if let isReviewed { settings.isReviewed = isReviewed }
            if let countsMemos { settings.countsMemosAsMessages = countsMemos }
            if let templates { settings.removedTemplates = Set(templates) }
        }
    }

    private func app(_ settings: TalkSettings) -> Response {
        var json = JSONWriter()
        json.object { json in
            json.member("reviewed", settings.isReviewed)
            json.object("quotas") { json in
                for (name, quota) in Self.quotas { json.member(name, settings.quotas[keyPath: quota]) }
            }
            json.member("memos_count_as_messages", settings.countsMemosAsMessages)
            json.member("removed_templates", settings.removedTemplates.sorted())
        }
        return .json(json.bytes)
    }

    // MARK: Messages

    private func messages(_ request: Request) throws -> Response {
        let query = try ControlInput(queryOf: request, known: ["sender_id", "receiver_id", "after", "limit"])
        let limit = Int(try query.integer("limit", in: 1...Self.maximumLimit) ?? 100)
        let page = talk.messages(
            from: try query.integer("sender_id", in: 1...Int64.max),
            to: try query.integer("receiver_id", in: 1...Int64.max),
            after: Int(try query.integer("after", in: 0...Int64.max) ?? 0),
            limit: limit
        )
        var json = JSONWriter()
        json.object {
            $0.member("items", page)
            $0.member("next", page.count == limit ? page.last?.sequence : nil)
        }
        return .json(json.bytes)
    }

    private func repeated(_ request: Request) async throws -> Response {
        let query = try ControlInput(queryOf: request, known: ["limit"])
        let limit = Int(try query.integer("limit", in: 1...Self.maximumLimit) ?? 1000)
        let repeated = await offLoop { talk.repeated(limit: limit) }
        var json = JSONWriter()
        json.object { $0.member("items", repeated) }
        return .json(json.bytes)
    }
}
