internal import Crypto

/// The secrets of the settings that callers present.
struct AcceptedSecrets: Sendable {
    let operatorKey: Secret
    private let adminKey: Secret
    private let nextAdminKey: Secret?
    /// The secret in the path of Kakao's feedback; `nil` if there is none.
    let feedback: Secret?

    init(_ identity: IdentitySettings, _ kakao: KakaoSettings) {
        operatorKey = identity.operatorKey
        adminKey = kakao.adminKey
        nextAdminKey = kakao.nextAdminKey
        feedback = identity.feedbackSecret
    }

    /// Returns whether a text is an Admin key that Kakao may present: the present one or the next one. The time does not
    /// depend on which.
    func hasAdminKey(_ text: String) -> Bool {
        let digest = SHA256Digest.of(text)
        let isPresent = adminKey.matches(digest: digest)
        let isNext = nextAdminKey?.matches(digest: digest) ?? false
        return isPresent || isNext
    }
}
