package import Endpoints
import HTTPTypes
import Locking
package import Runtime

/// The feature that counts messages against Kakao's quotas of a day, on one event loop.
package protocol MessageReservationSource: Sendable {
    /// Reserves a message before it is sent.
    ///
    /// - Parameter uuids: The receivers, by Kakao's ids; `nil` for a message to the sender.
    /// - Throws: ``Problem`` 429 if a quota is used up.
    func reserve(_ uuids: [String]?, from sender: Int64) async throws -> MessageReservation

    /// Releases what Kakao did not count.
    ///
    /// - Parameter uuids: The receivers that were not reached; `nil` stands for the sender.
    func release(_ uuids: [String?], of reservation: MessageReservation) async throws
}

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

/// A registry for the feature that counts messages against the quotas, so that others can reserve messages.
package final class MessageReservations: Sendable {
    private let source = Locked<(@Sendable (LoopServices) -> any MessageReservationSource)?>(nil)

    package init() {}

    /// Sets the source, which is made for each event loop. Called before the server starts.
    package func register(_ make: @escaping @Sendable (LoopServices) -> any MessageReservationSource) {
        source.withLock { $0 = make }
    }

    /// Returns the source of an event loop; `nil` if nothing counts.
    package func source(_ loop: LoopServices) -> (any MessageReservationSource)? { source.withLock { $0 }?(loop) }
}

extension ProblemKind {
    package static let messageQuotaUsedUp = ProblemKind(
        .tooManyRequests,
        "message-quota-used-up",
        "A quota of messages a day is used up; `quota` says which."
    )
}
