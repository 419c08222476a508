/// A type of outgoing webhook (`docs/webhooks.md`).
package enum WebhookType: String, CaseIterable, Sendable {
    /// Kakao reported that a shared message has reached a chat room.
    case linkCallbackReceived = "link.callback.received"
    /// Kakao reported that a user has unlinked the app.
    case userUnlinked = "user.unlinked"
    /// Kakao reported a change of a user's account.
    case accountEventReceived = "account.event.received"
    /// Kakao reported that a person has added one of the company's KakaoTalk channels.
    case channelAdded = "channel.added"
    /// Kakao reported that a person has blocked one of the company's KakaoTalk channels.
    case channelBlocked = "channel.blocked"
    /// A user must log in again before the server can use the user's tokens.
    case accountLoginRequired = "account.login_required"
    case deviceWithdrawn = "device.withdrawn"
    /// A push waits for the approval of a second operator.
    case pushProposed = "push.proposed"
    case pushDone = "push.done"
    case pushHalted = "push.halted"
    case pushExpired = "push.expired"
    /// A push has ended and did not reach all of its users.
    case pushUnreached = "push.unreached"
    case messageDone = "message.done"
    case messageCanceled = "message.canceled"
    case messageExpired = "message.expired"
    /// An operator has stopped the sender.
    case senderStopped = "sender.stopped"
    /// Kakao rejects the Admin key, or the app.
    case senderHalted = "sender.halted"
    /// The sender is neither stopped nor halted any more.
    case senderResumed = "sender.resumed"
    /// An operator's test of the endpoint.
    case test = "webhook.test"
}
