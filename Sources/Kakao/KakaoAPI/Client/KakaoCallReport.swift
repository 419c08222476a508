/// A finished call to Kakao, for metrics.
package struct KakaoCallReport: Sendable {
    /// The name of the call: see ``KakaoOperation/name``.
    package let name: String
    package let family: KakaoFamily
    package let credential: KakaoCredential.Kind
    /// The time since the call was requested, including the wait for a connection.
    package let duration: Duration
    /// `nil` if Kakao responded with success.
    package let error: KakaoError?
}
