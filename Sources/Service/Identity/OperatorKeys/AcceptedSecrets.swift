import Crypto
import Settings

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

    /// Returns whether a text is an Admin key that Kakao may use: the current or the next one. It takes the same time for
    /// either.
    func hasAdminKey(_ text: String) -> Bool {
        let digest = SHA256Digest.of(text)
        let isCurrent = adminKey.matches(digest: digest)
        let isNext = nextAdminKey?.matches(digest: digest) ?? false
        return isCurrent || isNext
    }
}
