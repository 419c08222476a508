import FoundationEssentials

/// A device with a change that Kakao has not confirmed, leased by the server that calls Kakao about it.
struct PendingDevice: Sendable {
    let key: DeviceKey
    let pushToken: String
    /// Whether the device is to be deregistered at Kakao.
    let isWithdrawn: Bool
    /// The revision that a successful call confirms.
    let revision: Int64
    let lease: UUID
    /// The number of times that this change was postponed, after a failed call or to wait for another device.
    var attempts = 0
    /// Whether the change is a renewal by the server. Kakao still has the token.
    var isRenewal = false
    /// Whether Kakao has confirmed the same registration before: the call only renews the token.
    var isRepetition = false
    /// Whether another server or request has to deregister another device with the same token first.
    var mustWait = false
}
