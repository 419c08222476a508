package import FoundationEssentials

/// A session of the operator's page: an operator has signed in with a key, and the browser has a cookie in its place.
package struct OperatorSession: Sendable, Equatable {
    package let id: UUID
    /// When the operator has entered the key.
    package let startedAt: Date
    package let endsAt: Date
    /// Whether that was in the last five minutes.
    package let isRecent: Bool
    /// The address from which the operator has signed in.
    package let address: String

    package init(id: UUID, startedAt: Date, endsAt: Date, isRecent: Bool, address: String) {
        self.id = id
        self.startedAt = startedAt
        self.endsAt = endsAt
        self.isRecent = isRecent
        self.address = address
    }
}
