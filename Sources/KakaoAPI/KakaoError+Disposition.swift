internal import HTTPClient

extension KakaoError {
    /// What to do about the error.
    package var disposition: Disposition {
        switch kind {
        case .refused(let status, let code, _): Self.disposition(status: status, code: code)
        case .unreachable(let error): Self.disposition(error.code)
        case .badAnswer: .retry
        }
    }

    /// The code before the status: Kakao says 400 of faults that pass. A gateway gives no code.
    private static func disposition(status: Int, code: KakaoErrorCode?) -> Disposition {
        switch code {
        case .internalError, .underMaintenance, .serverTimeout, .platformMaintenance: return .retry
        case .quotaExceeded: return .wait
        case .invalidCredential, .featureDisabled, .noPermission, .apiTerminated, .suspended: return .halt
        case .invalidParameter: return .invalid
        default: break
        }
        switch status {
        case 401: return .halt
        case 429: return .wait
        // Without a code the status is all there is, and 400 is that of a wrong parameter.
        case 400 where code == nil: return .invalid
        case 400..<500: return .fail
        default: return .retry
        }
    }

    private static func disposition(_ code: HTTPClientError.Code) -> Disposition {
        switch code {
        case .cannotResolve, .cannotConnect, .tls, .timedOut, .expired, .connectionLost, .responseTooLarge,
            .badResponse,
            .canceled,
            .overloaded, .shutDown, .internalFailure:
            .retry
        // The address of the API or the Admin key is not of a form that can be sent: a matter of the settings.
        case .invalidRequest, .invalidSettings:
            .halt
        }
    }
}
