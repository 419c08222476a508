import Crypto
import Settings

/// The secrets of the settings that callers present.
struct AcceptedSecrets: Sendable {
    let operatorKey: Secret
    private let adminKey: Secret
    private let nextAdminKey: Secret?
    /// The secret in the path of Kakao's feedback; `nil` if there is none.
    let feedback: Secret?
    /// The digests of the app's own keys, which are public.
    private let publicKeys: Set<[UInt8]>
    /// Whether calls with these keys are admitted where an operation allows it.
    private let admitsPublicKeys: Bool

    init(_ identity: IdentitySettings, _ kakao: KakaoSettings) {
        operatorKey = identity.operatorKey
        adminKey = kakao.adminKey
        nextAdminKey = kakao.nextAdminKey
        feedback = identity.feedbackSecret
        publicKeys = Set(kakao.publicKeys.map { SHA256Digest.of($0) })
        admitsPublicKeys = kakao.makesAppKeyCalls
    }

    /// Returns whether the key with a digest is one of the app's own.
    func hasPublicKey(digest: [UInt8]) -> Bool { publicKeys.contains(digest) }

    /// Returns whether the key with a digest is one of the app's own, and such keys are admitted.
    func admitsPublicKey(digest: [UInt8]) -> Bool { admitsPublicKeys && hasPublicKey(digest: digest) }

    /// Returns whether a text is an Admin key that Kakao may use: the current or the next one. It takes the same time for
    /// either.
    func hasAdminKey(_ text: String) -> Bool {
        let digest = SHA256Digest.of(text)
        let isCurrent = adminKey.matches(digest: digest)
        let isNext = nextAdminKey?.matches(digest: digest) ?? false
        return isCurrent || isNext
    }
}
