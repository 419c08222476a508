import Crypto
import Endpoints
import Settings

/// The secrets of the settings that callers present.
struct AcceptedSecrets: Sendable {
    let operatorKey: Secret
    private let adminKey: Secret
    private let nextAdminKey: Secret?
    /// The SHA-256 of the app's other keys at Kakao.
    private let appKeys: Set<[UInt8]>
    /// The SHA-256 of those of them that are in apps and pages, and therefore public.
    private let publicKeys: Set<[UInt8]>
    /// Whether calls with public keys are admitted where an operation allows it.
    let admitsPublicKeys: Bool
    /// The secret in the path of Kakao's feedback; `nil` if there is none.
    let feedback: Secret?

    init(_ identity: IdentitySettings, _ kakao: KakaoSettings) {
        operatorKey = identity.operatorKey
        adminKey = kakao.adminKey
        nextAdminKey = kakao.nextAdminKey
        appKeys = Set(kakao.loginKeys.map { SHA256Digest.of($0) })
        feedback = identity.feedbackSecret
        publicKeys = Set(kakao.publicKeys.map { SHA256Digest.of($0) })
        admitsPublicKeys = kakao.makesAppKeyCalls
    }

    /// Returns whether the key with a digest is one of the app's public keys.
    func isPublicKey(_ digest: [UInt8]) -> Bool { publicKeys.contains(digest) }

    /// Returns whether a text is an Admin key that Kakao may use: the current or the next one. It takes the same time for
    /// either.
    func hasAdminKey(_ text: String) -> Bool { isAdminKey(SHA256Digest.of(text)) }

    /// Returns why a key is neither an operator key nor a user's token; `nil` if it may be one.
    ///
    /// - Parameter digest: The key's SHA-256.
    func rejection(ofKeyWith digest: [UInt8]) -> CredentialRejection? {
        if isAdminKey(digest) { return .adminKey }
        return appKeys.contains(digest) ? .appKey : nil
    }

    private func isAdminKey(_ digest: [UInt8]) -> Bool {
        let isCurrent = adminKey.matches(digest: digest)
        let isNext = nextAdminKey?.matches(digest: digest) ?? false
        return isCurrent || isNext
    }
}
