import Endpoints
import KakaoAPI

extension KakaoError {
    /// The reason why Kakao itself rejects an access token; `nil` for other errors, among them a gateway's 401. Kakao has one
    /// code for unknown and expired tokens, and tells them apart by its text only.
    package var tokenRejection: CredentialRejection? {
        guard credential == .userToken, case .refused(_, let code, let message) = kind else { return nil }
        switch code {
        case .invalidCredential where !refusesAddress:
            return message.contains("expired") ? .expiredToken : .unknownToken
        case .invalidParameter: return .malformedToken
        default: return nil
        }
    }
}
