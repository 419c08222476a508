/// The credential of a call to Kakao.
package enum KakaoCredential: Sendable {
    /// The Admin key, for the app as a whole.
    case adminKey
    /// The Admin key, for one of the app's users. The parameters `target_id_type` and `target_id` name the user.
    case adminKeyForUser(Int64)
    /// An access token that Kakao Login issued to a user. Visible ASCII characters only.
    case userToken(String)
    /// The app's REST API key, for the app as a whole.
    case restAPIKey
    /// The app key of a mobile or web app, with the header field `KA`, as Kakao's SDKs send it.
    case appKey
    /// The app key and the header field `KA` of a phone or a page that calls this server.
    case appKeyOfCaller(KakaoAppKey)
    /// No credential.
    case none

    package enum Kind: Sendable, Hashable {
        case adminKey, adminKeyForUser, userToken, restAPIKey, appKey, appKeyOfCaller, none

        /// The kind by which a call declares the credentials that it accepts.
        var declared: Kind { self == .appKeyOfCaller ? .appKey : self }
    }

    package var kind: Kind {
        switch self {
        case .adminKey: .adminKey
        case .adminKeyForUser: .adminKeyForUser
        case .userToken: .userToken
        case .restAPIKey: .restAPIKey
        case .appKey: .appKey
        case .appKeyOfCaller: .appKeyOfCaller
        case .none: .none
        }
    }
}
