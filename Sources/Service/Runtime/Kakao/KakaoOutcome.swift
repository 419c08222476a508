import HTTPClient
import KakaoAPI

/// The outcome of a call to Kakao: the label `outcome`.
package enum KakaoOutcome: String, CaseIterable, Sendable {
    /// Kakao responded with success.
    case ok
    /// Kakao reported a transient error.
    case retry
    /// A quota is used up.
    case wait
    /// Kakao rejected the key or the app, or the settings yield no valid request.
    case halt
    /// Kakao rejected this request.
    case refused
    /// Kakao did not respond in time.
    case timeout
    /// The connection failed or was lost.
    case unreachable
    /// The response is not Kakao's, or is not HTTP.
    case badAnswer = "bad_answer"
    /// The call failed in this server: it was canceled, came too late for a connection, or the server was overloaded or stopping.
    case givenUp = "given_up"

    /// Whether Kakao failed, or could not be reached: it said nothing about the request, the key or a quota.
    var isOutage: Bool {
        switch self {
        case .retry, .timeout, .unreachable, .badAnswer: true
        case .ok, .wait, .halt, .refused, .givenUp: false
        }
    }

    init(_ error: KakaoError?) {
        guard let error else {
            self = .ok
            return
        }
        switch error.kind {
        case .unrecognized:
            self = .badAnswer
        case .unreachable(let error):
            switch error.code {
            case .timedOut: self = .timeout
            case .cannotResolve, .cannotConnect, .proxy, .tls, .connectionLost: self = .unreachable
            case .responseTooLarge, .badResponse: self = .badAnswer
            case .canceled, .expired, .overloaded, .shutDown, .uploadFailed, .internalFailure: self = .givenUp
            case .invalidRequest: self = .halt
            }
        case .refused:
            switch error.disposition {
            case .retry, .unrecognized: self = .retry
            case .wait: self = .wait
            case .halt: self = .halt
            case .invalid, .fail, .logIn, .consent: self = .refused
            }
        }
    }
}
