import FoundationEssentials

/// The pushes or the messages of all servers that have not ended, as operators see them.
package struct UnfinishedWork: Sendable {
    /// The number in each state that has any; ``Backlog/limit`` means at least that many.
    package let states: [String: Int64]
    /// The oldest that needs an operator, or that waits, of each state in which one does; the most urgent state first.
    package let attention: [Item]

    /// Reads it from the database; `nil` if that does not respond. Read for each request, since an operator looks for the effect of
    /// an action.
    package typealias Source = @Sendable () async -> UnfinishedWork?

    package init(states: [String: Int64], attention: [Item]) {
        self.states = states
        self.attention = attention
    }

    /// A push or a message.
    package struct Item: Sendable {
        package let id: UUID
        /// Its name to show; `nil` if it has none.
        package let name: String?
        package let state: String
        /// Why it is not sent.
        package let reason: String
        /// What to do.
        package let remedy: String
        package let createdAt: Date

        package init(id: UUID, name: String?, state: String, reason: String, remedy: String, createdAt: Date) {
            self.id = id
            self.name = name
            self.state = state
            self.reason = reason
            self.remedy = remedy
            self.createdAt = createdAt
        }
    }
}
