/// What KakaoTalk knows of a user, whether or not the user is linked to the app.
struct TalkUser: Sendable {
    /// Whether the user uses KakaoTalk.
    var usesTalk = true
    /// Whether the user accepts messages of the app.
    var allowsMessages = true
    /// Whether the user is a member of the app's team, who may use it before its review.
    var isTeamMember = false
    /// The channels that the user has added or blocked, by their public ids.
    var channels: [String: ChannelRelation] = [:]
}

/// The relation of a user to a channel.
struct ChannelRelation: Sendable {
    enum Kind: String, CaseIterable, Sendable {
        case added = "ADDED"
        case blocked = "BLOCKED"
        case none = "NONE"
    }

    let kind: Kind
    /// In Unix milliseconds.
    let changedAt = WallClock.unixMilliseconds
}
