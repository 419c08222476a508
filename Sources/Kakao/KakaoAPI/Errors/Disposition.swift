/// How a caller handles a call that did not succeed (`docs/errors.md`).
package enum Disposition: Sendable, Hashable {
    /// Retry later, a bounded number of times: the fault is temporary.
    case retry
    /// Something that is not Kakao responded, which says nothing about the request. The attempt is not counted. Calls of the
    /// kind are tried rarely until Kakao responds.
    case unrecognized
    /// The sender pauses all calls: the quota is used up. The attempt is not counted. The quota of KOE237 is that of one
    /// user, and pauses the calls for that user.
    case wait
    /// The sender stops until an operator intervenes: Kakao refuses the key or the app, whatever is sent. The attempt
    /// is not counted.
    case halt
    /// The user must log in again, since the access token, the refresh token or the authorization code is invalid or
    /// expired.
    case logIn
    /// The user must consent to more scopes.
    case consent
    /// Kakao rejects the request as invalid: the message or one of its users.
    case invalid
    /// A final failure, of this request only.
    case fail
}
