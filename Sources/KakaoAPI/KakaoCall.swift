/// A call to Kakao that has ended: for whoever counts calls.
package struct KakaoCall: Sendable {
    /// What was called, whatever the version.
    package enum API: Int, CaseIterable, Sendable {
        case pushRegister
        case pushTokens
        case pushDeregister
        case pushSend
        case accessTokenInfo

        /// Whether the call is authorized by the Admin key; otherwise by a user's access token.
        package var usesAdminKey: Bool { self != .accessTokenInfo }
    }

    package let api: API
    /// From the moment it was asked for, waiting for a connection included.
    package let duration: Duration
    /// `nil` when Kakao answered with success.
    package let error: KakaoError?
}
