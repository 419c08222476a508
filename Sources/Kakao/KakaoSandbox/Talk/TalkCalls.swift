import JSON
import KakaoAPI
import Locking
import Templates

/// KakaoTalk: profiles, friends, channels, and messages, which read and change ``TalkStore`` and ``AppUsers``.
struct TalkCalls: Sendable {
    private typealias Caller = KakaoCallServer.Caller

    let settings: KakaoSandboxSettings
    let users: AppUsers
    let talk: TalkStore
    let faults: FaultBoard
    /// The sandbox's own URL, which is known once the sandbox listens.
    let url: Locked<String>

    func add(to server: inout KakaoCallServer) {
        server.on(TalkProfile.self) { call, caller throws(KakaoRefusal) in
            let user = try user(caller)
            return TalkProfile.Answer(
                nickname: user.nickname,
                profileImageURL: user.image("profile_image_url", isSecure: call.secureResource == true),
                thumbnailURL: user.image("thumbnail_image_url", isSecure: call.secureResource == true)
            )
        }
        server.on(RetrieveFriends.self) { call, caller throws(KakaoRefusal) in
            page(call, try user(caller, needing: [AppDefinition.friends], for: "FRIENDS").id)
        }
        server.on(RetrieveChannels.self) { call, caller throws(KakaoRefusal) in
            let user = try user(caller)
            return RetrieveChannels.Answer(userID: user.id, channels: try channels(call.channelIDs, of: user))
        }
        server.on(RetrieveChannelRelations.self) { call, caller throws(KakaoRefusal) in
            let user = try user(caller)
            return RetrieveChannels.Answer(userID: user.id, channels: try channels(call.publicIDs, of: user))
        }
        server.on(RetrievePlusFriends.self) { call, caller throws(KakaoRefusal) in
            let user = try user(caller)
            return RetrieveChannels.Answer(userID: user.id, channels: try channels(call.publicIDs, of: user))
        }
        server.on(RetrieveChannelsOfUsers.self, users: \.targetIDs) { call, _ throws(KakaoRefusal) in
            var answers: [RetrieveChannels.Answer] = []
            for userID in call.targetIDs {
                let user = users.user(userID)
                // Users who are not linked, or do not use KakaoTalk, are left out.
                guard user.talkRefusal == nil else { continue }
                answers.append(
                    RetrieveChannels.Answer(userID: user.id, channels: try channels(call.channelIDs, of: user))
                )
            }
            return answers
        }
        addMemos(to: &server)
        addMessages(to: &server)
    }

    // MARK: Messages

    private func addMemos(to server: inout KakaoCallServer) {
        server.on(SendDefaultMemo.self) { call, caller throws(KakaoRefusal) in
            try sendMemo(call, try content(call.template), caller)
        }
        server.on(SendCustomMemo.self) { call, caller throws(KakaoRefusal) in
            try sendMemo(call, try content(call.templateID, call.templateArgs), caller)
        }
        server.on(SendScrapMemo.self) { call, caller throws(KakaoRefusal) in
            try sendMemo(call, try content(call.requestURL, call.templateID, call.templateArgs), caller)
        }
    }

    private func addMessages(to server: inout KakaoCallServer) {
        server.on(SendDefaultMessage.self, users: receivers) { call, caller throws(KakaoRefusal) in
            try send(call, try content(call.template), caller)
        }
        server.on(SendCustomMessage.self, users: receivers) { call, caller throws(KakaoRefusal) in
            try send(call, try content(call.templateID, call.templateArgs), caller)
        }
        server.on(SendScrapMessage.self, users: receivers) { call, caller throws(KakaoRefusal) in
            try send(call, try content(call.requestURL, call.templateID, call.templateArgs), caller)
        }
    }

    private func sendMemo<Call: MessageCall>(
        _: Call,
        _ content: MessageContent,
        _ caller: Caller
    ) throws(KakaoRefusal) -> MemoAnswer {
        let user = try user(caller, needing: [AppDefinition.talkMessage], for: "TALK_MEMO_DEFAULT_SEND")
        try talk.sendMemo(content, by: Call.name, to: user.id)
        return MemoAnswer(resultCode: 0)
    }

    /// Sends a message to friends.
    ///
    /// - Throws: The first reason, if the message reaches no receiver.
    private func send<Call: MessageCall>(
        _ call: Call,
        _ content: MessageContent,
        _ caller: Caller
    ) throws(KakaoRefusal) -> FriendMessageAnswer {
        let needed = [AppDefinition.friends, AppDefinition.talkMessage]
        let sender = try user(caller, needing: needed, for: "TALK_MESSAGE_SEND").id
        let receivers = try receivers(call, of: sender)
        let refusals = talk.send(content, by: Call.name, from: sender, to: receivers)
        var successful: [String] = []
        var failures: [(refusal: KakaoRefusal, receivers: [String])] = []
        for (index, receiver) in receivers.enumerated() {
            guard let refusal = refusals[index] else {
                successful.append(receiver.uuid)
                continue
            }
            if let group = failures.firstIndex(where: { $0.refusal == refusal }) {
                failures[group].receivers.append(receiver.uuid)
            } else {
                failures.append((refusal, [receiver.uuid]))
            }
        }
        if successful.isEmpty, let first = failures.first { throw first.refusal }
        return FriendMessageAnswer(
            successfulReceivers: successful,
            failures: failures.map { refusal, receivers in
                FriendMessageAnswer.Failure(
                    code: KakaoErrorCode(rawValue: refusal.code ?? 0),
                    message: refusal.message,
                    receivers: receivers
                )
            }
        )
    }

    /// Returns the receivers, each once.
    ///
    /// - Throws: Error -2 if Kakao accepts no message with these receivers.
    private func receivers<Call: MessageCall>(
        _ call: Call,
        of sender: Int64
    ) throws(KakaoRefusal) -> [TalkStore.Receiver] {
        func unsatisfied(_ reason: String) -> KakaoRefusal {
            .badParameter("Constraints on the parameter [receiver_uuids] are unsatisfied. \(reason)")
        }
        var ids: [Int64] = []
        for uuid in call.messageReceivers ?? [] {
            guard let userID = talk.uuids.userID(of: uuid) else {
                throw unsatisfied("The input receiver id(s) is invalid format.")
            }
            guard userID != sender else {
                throw .badParameter("Cannot contain a receiver who is identical to the sender in multicast mode.")
            }
            if !ids.contains(userID) { ids.append(userID) }
        }
        let isReviewed = talk.settings.isReviewed
        let failing = faults.failingReceivers(of: Call.operation.path, among: ids)
        var receivers: [TalkStore.Receiver] = []
        for userID in ids {
            let user = users.user(userID)
            guard isReviewed || user.talk.isTeamMember else {
                throw unsatisfied("Not allowed to send a message to some of receivers.")
            }
            let refusal = user.messageRefusal ?? failing[userID]
            receivers.append(TalkStore.Receiver(userID: userID, uuid: talk.uuids.uuid(of: userID), refusal: refusal))
        }
        return receivers
    }

    /// Returns the users among the receivers of a call, for faults.
    private func receivers(_ call: some MessageCall) -> [Int64] {
        (call.messageReceivers ?? []).compactMap { talk.uuids.userID(of: $0) }
    }

    // MARK: Contents

    private func content(_ template: JSONObject) throws(KakaoRefusal) -> MessageContent {
        let findings = TemplateLinter().findings(in: JSONValue.object(template))
        if let finding = findings.first(where: { $0.effect == .rejected }) {
            throw .badParameter("failed to parse parameter. name=template_object, \(finding.path): \(finding.message)")
        }
        return MessageContent(template: template)
    }

    private func content(_ templateID: Int64, _ args: JSONObject?) throws(KakaoRefusal) -> MessageContent {
        try checkExists(templateID)
        return MessageContent(templateID: templateID, args: args)
    }

    private func content(
        _ requestURL: String,
        _ templateID: Int64?,
        _ args: JSONObject?
    ) throws(KakaoRefusal) -> MessageContent {
        if let templateID { try checkExists(templateID) }
        let domains = RegisteredDomains(settings.domains)
        guard requestURL.hasPrefix("http://") || requestURL.hasPrefix("https://"),
            domains.isEmpty || domains.contains(address: requestURL)
        else {
            throw .badParameter("failed to parse parameter. name=request_url, it must be a page on a registered domain")
        }
        return MessageContent(requestURL: requestURL, templateID: templateID, args: args)
    }

    private func checkExists(_ templateID: Int64) throws(KakaoRefusal) {
        guard !talk.settings.removedTemplates.contains(templateID) else {
            throw .badParameter("failed to parse parameter. name=template_id, the template does not exist")
        }
    }

    // MARK: Users

    /// Returns the user of a call.
    ///
    /// - Throws: Error -101, -501 or -402.
    private func user(
        _ caller: Caller,
        needing scopes: [String] = [],
        for api: String = ""
    ) throws(KakaoRefusal) -> AppUsers.User {
        guard let userID = caller.userID else { throw .badParameter("The Parameter [target_id] cannot be null.") }
        let user = users.user(userID)
        if let refusal = user.talkRefusal { throw refusal }
        let missing = scopes.filter { !user.scopes.contains($0) }
        guard missing.isEmpty else { throw .missingScopes(missing, api: api, allowed: user.scopes) }
        return user
    }

    // MARK: Friends and channels

    /// A friend who is listed.
    private typealias ListedFriend = (user: AppUsers.User, isFavorite: Bool)

    /// Returns the friends of a user who use the app, in the order of a call.
    private func listedFriends(_ call: RetrieveFriends, _ userID: Int64) -> [ListedFriend] {
        let isReviewed = talk.settings.isReviewed
        let listed = talk.friends(of: userID).filter { !$0.isHidden }.compactMap { friendship -> ListedFriend? in
            let user = users.user(friendship.userID)
            guard user.talkRefusal == nil, user.scopes.contains(AppDefinition.friends),
                isReviewed || user.talk.isTeamMember
            else { return nil }
            return (user, friendship.isFavorite)
        }
        func name(_ friend: ListedFriend) -> (String, Int64) { (friend.user.nickname ?? "", friend.user.id) }
        let sorted = listed.sorted { left, right in
            switch call.friendOrder ?? .favorite {
            case .favorite where left.isFavorite != right.isFavorite: left.isFavorite
            case .favorite, .nickname: name(left) < name(right)
            // The sandbox knows no ages of friends.
            case .age: left.user.id < right.user.id
            }
        }
        return call.order == .descending ? sorted.reversed() : sorted
    }

    private func page(_ call: RetrieveFriends, _ userID: Int64) -> RetrieveFriends.Answer {
        let friends = listedFriends(call, userID)
        let limit = Int(call.limit ?? RetrieveFriends.maximumLimit)
        let start = Int(min(call.offset ?? 0, Int64(friends.count)))
        let end = min(start + limit, friends.count)
        func address(_ offset: Int) -> String {
            let order = (call.order ?? .ascending).rawValue
            let friendOrder = (call.friendOrder ?? .favorite).rawValue
            let query = "offset=\(offset)&limit=\(limit)&order=\(order)&friend_order=\(friendOrder)"
            return "\(url.withLock { $0 })\(RetrieveFriends.operation.path)?\(query)"
        }
        return RetrieveFriends.Answer(
            friends: friends[start..<end].map { user, isFavorite in
                RetrieveFriends.Friend(
                    userID: user.id,
                    uuid: talk.uuids.uuid(of: user.id),
                    nickname: user.nickname ?? "",
                    thumbnailURL: user.image("thumbnail_image_url", isSecure: call.secureResource == true),
                    isFavorite: isFavorite
                )
            },
            totalCount: Int64(friends.count),
            favoriteCount: Int64(friends.count { $0.isFavorite }),
            beforeURL: start > 0 ? address(max(0, start - limit)) : nil,
            afterURL: end < friends.count ? address(end) : nil
        )
    }

    private func channels(_ ids: [String]?, of user: AppUsers.User) throws(KakaoRefusal) -> [RetrieveChannels.Channel] {
        let known = AppDefinition.channels
        if let id = ids?.first(where: { id in !known.contains { $0.publicID == id } }) {
            throw .error(.channelMissing, "the channel [\(id)] does not exist.")
        }
        return known.filter { ids?.contains($0.publicID) ?? true }.map { channel in
            let relation = user.talk.channels[channel.publicID]
            let isKnown = relation != nil && relation?.kind != ChannelRelation.Kind.none
            return RetrieveChannels.Channel(
                uuid: channel.searchID,
                publicID: channel.publicID,
                relation: (relation?.kind ?? ChannelRelation.Kind.none).rawValue,
                updatedAt: isKnown ? relation.map { WallClock.text(unixMilliseconds: $0.changedAt) } : nil
            )
        }
    }
}

extension AppUsers.User {
    /// Kakao's error for a call of KakaoTalk that concerns the user; `nil` if there is none.
    fileprivate var talkRefusal: KakaoRefusal? {
        if !isLinked { return .notLinked }
        return talk.usesTalk ? nil : .error(.notTalkUser, "given account is not connected to any talk user.")
    }

    /// Kakao's error for a message to the user.
    fileprivate var messageRefusal: KakaoRefusal? {
        if let talkRefusal { return talkRefusal }
        return talk.allowsMessages ? nil : .error(.messagesRefused, "the receiver does not allow messages.")
    }
}
