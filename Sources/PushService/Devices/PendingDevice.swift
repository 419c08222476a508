internal import FoundationEssentials

/// A device with a change that Kakao has yet to be told of, leased by the server that calls Kakao about it.
struct PendingDevice: Sendable {
    let key: DeviceKey
    let pushToken: String
    /// Whether Kakao is to deregister the device.
    let isWithdrawn: Bool
    /// The revision that a successful call confirms.
    let revision: Int64
    let lease: UUID
    /// Failed calls about this revision.
    var attempts = 0
    /// Whether the server itself renews the token, which Kakao still has.
    var isRenewal = false
    /// Whether Kakao has confirmed the same registration before: the call only renews the token.
    var isRepetition = false
    /// Whether another user's device with the same token has to be deregistered first, by another server or request.
    var mustWait = false
}
