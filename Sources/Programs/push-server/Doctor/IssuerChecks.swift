import Crypto
import EventLoop
import HTTPClient
import Identity
import Server
import Settings

/// Checks that the keys that verify users' tokens are available.
struct IssuerChecks: Sendable {
    let settings: Settings
    let client: HTTPClient

    /// Checks the keys with which Kakao signs ID tokens and account events.
    func kakao() async -> Verdict {
        guard settings.identity.acceptsKakaoIDTokens || settings.kakao.restAPIKey != nil else {
            return .skipped("not needed: neither ID tokens nor account events of Kakao are accepted")
        }
        return await published(at: HTTPClientRequest(url: settings.kakao.keysURL), algorithms: [.rs256])
    }

    /// Checks the keys with which the service's own backend signs its tokens.
    func backend() async -> Verdict {
        switch settings.identity.backend?.keys {
        case nil:
            return .skipped("not set: tokens of your own backend are not accepted")
        case .secret(let secret):
            return .ok("HS256 with a secret of \(secret.revealed.utf8.count) characters")
        case .url(let url):
            let request = HTTPClientRequest(url: url, avoidsProxy: true)
            return await published(at: request, algorithms: [.rs256, .es256])
        case .file(let path):
            let keys = FileContents.read(path).flatMap { KeySet(json: $0) }
            guard let keys, !keys.isEmpty else {
                return .wrong("\(path) has no usable key: add an RSA or P-256 key with a kid")
            }
            return .ok("\(path) has \(Self.text(keys, [.rs256, .es256]))")
        }
    }

    private func published(at request: HTTPClientRequest, algorithms: [SignatureAlgorithm]) async -> Verdict {
        let (start, url) = (MonotonicTime.now, request.url)
        do throws(HTTPClientError) {
            let response = try await client.send(request)
            let time = (MonotonicTime.now - start).inMilliseconds
            guard response.status == 200 else {
                return .wrong(
                    "\(url) responded with status \(response.status): correct the address, or try again later"
                )
            }
            guard let keys = KeySet(json: response.body), algorithms.contains(where: { keys.count(of: $0) > 0 }) else {
                let names = algorithms.map(\.rawValue).joined(separator: " or ")
                return .wrong("\(url) has no key for \(names): correct the address")
            }
            return .ok("\(url) has \(Self.text(keys, algorithms)) (\(time))")
        } catch {
            return .wrong(error.remedy(certificate: settings.kakao.certificateRemedy))
        }
    }

    /// Returns the number of keys of each algorithm, such as `2 keys for RS256`.
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
