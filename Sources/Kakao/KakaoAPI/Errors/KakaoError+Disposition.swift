import HTTPClient

extension KakaoError {
    /// How the caller should handle the error.
    package var disposition: Disposition {
        switch kind {
        case .refused(let status, let code, _) where !refusesAddress: disposition(status: status, code: code)
        case .refused: .halt
        case .unreachable(let error): Self.disposition(error.code)
        case .unrecognized: .unrecognized
        }
    }

    /// Whether a quota of the app is used up, so that calls for other users are in vain, too. KOE237 is the quota of one user.
    package var exhaustsAppQuota: Bool { disposition == .wait && oauthError?.code != "KOE237" }

    /// Whether Kakao refuses calls from this server's address. It says so with the code of a bad token, also to a user's valid one.
    package var refusesAddress: Bool {
        guard case .refused(_, .invalidCredential?, let message) = kind else { return false }
        return message.hasPrefix("ip mismatched!")
    }

    /// Considers the code before the status, because Kakao uses 400 for temporary faults too.
    private func disposition(status: Int, code: KakaoErrorCode?) -> Disposition {
        // An invalid token and a missing scope are everyday events, and say nothing about the app.
        if credential == .userToken, code == .invalidCredential { return .logIn }
        if credential == .userToken || credential == .adminKeyForUser, code == .missingScope { return .consent }
        // So are the app key and the header field `KA` of a phone, which are public: anyone may combine them wrongly.
        if credential == .appKeyOfCaller, code == .invalidCredential { return .fail }
        if let oauthError, status < 500, let disposition = oauthError.disposition { return disposition }
        switch code {
        case .internalError, .underMaintenance, .serverTimeout, .channelFault, .platformMaintenance: return .retry
        case .quotaExceeded: return .wait
        case .invalidCredential, .featureDisabled, .noPermission, .apiTerminated, .suspended: return .halt
        case .invalidParameter: return .invalid
        default: break
        }
        switch status {
        // Other reasons why Kakao rejects a user, such as the age (-406), are not the app's either.
        case 401: return credential == .userToken || credential == .appKeyOfCaller ? .fail : .halt
        case 429: return .wait
        // A successful response can report an error in its body.
        case 200..<500: return .fail
        default: return .retry
        }
    }

    private static func disposition(_ code: HTTPClientError.Code) -> Disposition {
        switch code {
        case .cannotResolve, .cannotConnect, .proxy, .tls, .timedOut, .expired, .connectionLost, .responseTooLarge,
            .badResponse,
            .canceled,
            .overloaded, .shutDown, .uploadFailed, .internalFailure:
            .retry
        // The API address or the Admin key cannot be sent in this form: a configuration error.
        case .invalidRequest:
            .halt
        }
    }
}
