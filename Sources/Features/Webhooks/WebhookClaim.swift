import FoundationEssentials
import Runtime

/// A webhook that a server has claimed.
struct WebhookClaim: QueueClaim {
    /// What becomes of a webhook.
    enum Next: Sendable, Equatable {
        case delivered
        /// The attempt has failed, and there is another one.
        case retried(after: Duration)
        /// The last attempt has failed.
        case failed
        /// Its object is gone.
        case dropped
        /// It is due as before.
        case held
    }

    /// The id of its row.
    let event: UUID
    /// The number of times that it was claimed, including this one.
    let claims: Int32
    let endpoint: String
    /// The failed attempts so far.
    let attempts: Int32
    /// Whether it finds out whether a failing endpoint accepts webhooks again.
    let isProbe: Bool
    /// When it was read, by the loop's clock in milliseconds.
    let readAt: UInt64
    /// `nil` if its object is gone.
    let message: WebhookMessage?
    var next = Next.held

    var id: ClaimID { ClaimID(ownerID: event, number: 0, claims: claims) }
}

/// What a server has learned of a claimed webhook.
enum WebhookResult: Sendable {
    /// There was no request.
    case notSent
    case objectGone
    case attempted(WebhookAttempt)

    /// The attempt; `nil` if there was none.
    var attempt: WebhookAttempt? {
        switch self {
        case .notSent, .objectGone: nil
        case .attempted(let attempt): attempt
        }
    }
}

/// An endpoint as the database has it.
struct StoredEndpoint: Sendable, Equatable {
    let name: String
    let status: EndpointStatus
    /// The time until a failing endpoint may be probed.
    let secondsToProbe: Double
}

/// The webhooks that a statement has claimed, and the endpoints that it looked at.
struct ClaimedWebhooks: QueueClaims {
    var claims: [WebhookClaim] = []
    var endpoints: [StoredEndpoint] = []
    var isLeaseValid = false
}
