package import HTTPServer
import HTTPTypes

/// The credential in `Authorization`.
package struct Credential {
    package enum Scheme: String, CaseIterable {
        case bearer = "Bearer "
        /// Kakao's own scheme.
        case kakaoAK = "KakaoAK "
    }

    package let scheme: Scheme
    /// The key or the token.
    package let text: String

    /// `nil` without one of these schemes, which are case-insensitive (RFC 9110 §11.1).
    package init?(_ request: Request) {
        guard let field = request[.authorization] else { return nil }
        for scheme in Scheme.allCases {
            let name = scheme.rawValue.utf8
            guard zip(field.utf8, name).allSatisfy({ $0 | 0x20 == $1 | 0x20 }), field.utf8.count > name.count else {
                continue
            }
            self.scheme = scheme
            text = String(field.utf8.dropFirst(name.count)) ?? ""
            return
        }
        return nil
    }
}

extension HTTPField.Name {
    /// The key of a backend that sends a user's token in `Authorization`.
    static let operatorKey = unvalidated("X-Operator-Key")
}
