/// A finished call to Kakao, for metrics.
package struct KakaoCall: Sendable {
    /// The API that was called, in any version.
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
    /// The time since the call was requested, including the wait for a connection.
    package let duration: Duration
    /// `nil` if Kakao responded with success.
    package let error: KakaoError?
}
