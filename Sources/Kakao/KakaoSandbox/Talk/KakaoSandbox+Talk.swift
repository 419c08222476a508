package import JSON

/// The controls of `/sandbox/talk/*`, for tests that run the sandbox in their own process.
extension KakaoSandbox {
    /// Sets the friends of users: the body of `POST /sandbox/talk/friends`.
    ///
    /// - Throws: `Problem` that names the field.
    package func setFriends(_ members: JSONObject) throws {
        try talkControl.setFriends(ControlInput(members, known: ["users", "consent"]))
    }

    /// Makes users friends of a user, who agrees to the scopes of messages; the friends agree to be listed.
    package func befriend(_ userID: Int64, _ friends: [Int64]) throws {
        try setFriends(["users": [["user_id": .integer(userID), "friends": .array(friends.map(JSONValue.integer))]]])
    }

    /// Sets how KakaoTalk treats the app: the body of `POST /sandbox/talk/app`.
    ///
    /// - Throws: `Problem` that names the field.
    package func setTalkApp(_ members: JSONObject) throws {
        try talkControl.setApp(ControlInput(members, known: TalkControl.members))
    }

    /// Returns the uuid by which messages name a user.
    package func friendUUID(of userID: Int64) -> String {
        talk.uuids.uuid(of: userID)
    }

    /// Returns the oldest messages after a sequence number, from and to some user or all users, at most `limit`.
    package func talkMessages(
        from sender: Int64? = nil,
        to receiver: Int64? = nil,
        after sequence: Int = 0,
        limit: Int = 10_000
    ) -> [TalkMessage] {
        talk.messages(from: sender, to: receiver, after: sequence, limit: limit)
    }

    /// Returns the contents that one user received from another more than once, at most `limit`. It takes some 100 ms for
    /// 200,000 messages.
    package func repeatedTalkMessages(limit: Int = 10_000) -> [RepeatedMessage] {
        talk.repeated(limit: limit)
    }

    /// The counts of the messages since the record began.
    package var talkTotals: TalkTotals { talk.totals }
}
