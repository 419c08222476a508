internal import EventLoop
internal import HTTPClient

/// Whether the keys are there that users' tokens are verified with.
struct IssuerChecks: Sendable {
    let settings: Settings
    let client: HTTPClient

    /// Kakao's, which ID tokens and account events are signed with.
    func kakao() async -> Finding {
        let subject = "kakao.auth_url"
        guard settings.identity.acceptsKakaoIDTokens || settings.kakao.restAPIKey != nil else {
            return Finding(.skipped, subject, "nothing that Kakao signs is accepted: no key of the app is set")
        }
        return await published(subject, at: settings.kakao.keysURL, algorithms: [.rs256])
    }

    /// Those of the service's own backend.
    func backend() async -> Finding {
        let subject = "identity.jwt"
        switch settings.identity.backend?.keys {
        case nil:
            return Finding(.skipped, subject, "not set: apps do not call with tokens of your own backend")
        case .secret(let secret):
            return Finding(.ok, subject, "HS256 with a secret of \(secret.revealed.utf8.count) characters")
        case .url(let url):
            return await published(subject, at: url, algorithms: [.rs256, .es256])
        case .file(let path):
            let keys = FileContents.read(path).flatMap { KeySet(json: $0) }
            guard let keys, !keys.isEmpty else {
                return Finding(.wrong, subject, "\(path) has no key that can be used: RSA or P-256, with a kid")
            }
            return Finding(.ok, subject, "\(path) has \(Self.text(keys, [.rs256, .es256]))")
        }
    }

    private func published(_ subject: String, at url: String, algorithms: [SignatureAlgorithm]) async -> Finding {
        let start = MonotonicTime.now
        do throws(HTTPClientError) {
            let response = try await client.send(HTTPClientRequest(url: url))
            let time = (MonotonicTime.now - start).inMilliseconds
            guard response.status == 200 else {
                return Finding(
                    .wrong,
                    subject,
                    "\(url) answered \(response.status): mend the address, or ask again later"
                )
            }
            guard let keys = KeySet(json: response.body), algorithms.contains(where: { keys.count(of: $0) > 0 }) else {
                let names = algorithms.map(\.rawValue).joined(separator: " or ")
                return Finding(.wrong, subject, "\(url) has no key for \(names): mend the address")
            }
            return Finding(.ok, subject, "\(url) has \(Self.text(keys, algorithms)) (\(time))")
        } catch {
            return Finding(.wrong, subject, error.remedy(certificate: settings.kakao.certificateRemedy))
        }
    }

    /// `2 keys for RS256`.
    private static func text(_ keys: KeySet, _ algorithms: [SignatureAlgorithm]) -> String {
        algorithms.compactMap { algorithm in
            switch keys.count(of: algorithm) {
            case 0: nil
            case 1: "1 key for \(algorithm.rawValue)"
            case let count: "\(count) keys for \(algorithm.rawValue)"
            }
        }.joined(separator: ", ")
    }
}
