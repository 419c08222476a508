package import Endpoints
import HTTPTypes

/// A message that counts against the quotas of a day.
package struct MessageReservation: Sendable {
    package let sender: Int64
    /// The day, as PostgreSQL writes it: `2026-11-23`.
    package let day: String

    package init(sender: Int64, day: String) {
        self.sender = sender
        self.day = day
    }
}

extension ProblemKind {
    package static let messageQuotaUsedUp = ProblemKind(
        .tooManyRequests,
        "message-quota-used-up",
        "A quota of messages a day is used up; `quota` says which."
    )
}
