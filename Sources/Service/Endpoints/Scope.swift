/// A permission of an operator key.
package enum Scope: String, CaseIterable, Sendable {
    /// Permission to register, list and deregister any user's devices.
    case devices
    /// Permission to send and control pushes.
    case send
    /// Permission to stop and start all sending, to control pushes and messages without sending any, and to read messages and the states of
    /// accounts.
    case operate
    /// Permission to approve and reject pushes that other keys created.
    case approve
    /// Permission to call Kakao about users: accounts, scopes, terms.
    case accounts
    /// Permission to read users' access tokens.
    case tokens
    /// Permission to call KakaoTalk, Talk Calendar and KakaoStory for users.
    case talk
    /// Permission to send requests of users, with their tokens, without a limit for the address. It allows nothing by itself.
    case userCalls = "user-calls"
    /// Permission to share with KakaoTalk and to upload images.
    case sharing
    /// Permission to read the server's data: pushes, callbacks, devices.
    case read
    /// Permission to download all devices with their push tokens, and the users whom pushes did not reach.
    case export
    /// Everything.
    case admin

    /// Returns whether a key with the scopes `granted` has this permission.
    package func isAllowed(by granted: Set<Scope>) -> Bool {
        granted.contains(self) || granted.contains(.admin)
    }
}
