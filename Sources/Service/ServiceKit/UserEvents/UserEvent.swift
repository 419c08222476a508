package import FoundationEssentials

/// A change of a user's relation to the app at Kakao.
package struct UserEvent: Sendable {
    package enum Kind: Sendable {
        /// Tokens of the user were revoked.
        case tokensRevoked
        /// The user has left the app: unlinked it, or deleted the account.
        case left
    }

    /// The type of an event that a call to this server caused: the user was logged out.
    package static let logout = "logout"
    /// The type of an event that a call to this server caused: the user was unlinked.
    package static let unlinkCall = "unlink-call"

    package let userID: Int64
    package let kind: Kind
    /// The type of the event, in Kakao's words, or one of those above.
    package let type: String
    /// When it happened, by the database's clock.
    package let happenedAt: Date

    package init(userID: Int64, kind: Kind, type: String, happenedAt: Date) {
        self.userID = userID
        self.kind = kind
        self.type = type
        self.happenedAt = happenedAt
    }
}
