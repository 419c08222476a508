import KakaoAPI
import Schemas

/// Why a receiver was not reached, or is not reached yet.
enum Reason: String, Sendable, CaseIterable {
    // The sender.
    case loginRequired = "login_required"
    case missingScope = "missing_scope"
    case senderWithoutTalk = "sender_without_talk"
    case notAllowed = "not_allowed"
    // The receiver.
    case notInFriendsList = "not_in_friends_list"
    case notAFriend = "not_a_friend"
    case notLinked = "not_linked"
    case noTalkUser = "no_talk_user"
    case unsupportedDevice = "unsupported_device"
    case refusesMessages = "refuses_messages"
    // Quotas.
    case appQuota = "app_quota"
    case senderQuota = "sender_quota"
    case senderMonthlyQuota = "sender_monthly_quota"
    case receiverQuota = "receiver_quota"
    case pairQuota = "pair_quota"
    // The message.
    case invalidMessage = "invalid_message"
    case rejected
    // The exchange with Kakao.
    case unavailable
    case noResponse = "no_response"
    case notReported = "not_reported"
    case serverStopped = "server_stopped"
    // The message's end.
    case canceled
    case expired

    /// What an operator, the sender or the receiver can do.
    var remedy: String {
        switch self {
        case .loginRequired:
            "The sender must log in with Kakao again: the server has no valid token of the sender."
        case .missingScope: "The sender must agree to the missing scopes."
        case .senderWithoutTalk: "The sender must use KakaoTalk with this Kakao Account."
        case .notAllowed:
            "Kakao does not allow the app to send: check the permissions and the scopes in Kakao's console."
        case .notInFriendsList:
            "The receiver must be a KakaoTalk friend of the sender, be linked to the app and agree to the scope friends."
        case .notAFriend:
            "The receiver must be a KakaoTalk friend of the sender. Kakao needs some minutes to learn of a new friendship."
        case .notLinked: "The receiver must log in to the app with Kakao."
        case .noTalkUser: "The receiver must use KakaoTalk with this Kakao Account."
        case .unsupportedDevice: "The receiver needs a device on which KakaoTalk shows messages of apps."
        case .refusesMessages: "The receiver has turned off messages from apps in KakaoTalk."
        case .appQuota: "The app's messages of the day are used up. Kakao counts anew at midnight."
        case .senderQuota: "The sender's messages of the day are used up. Kakao counts anew at midnight."
        case .senderMonthlyQuota: "The sender's messages of the month are used up."
        case .receiverQuota: "The receiver's messages of the day are used up. Kakao counts anew at midnight."
        case .pairQuota:
            "The messages of the day from this sender to this receiver are used up. Kakao counts anew at midnight."
        case .invalidMessage: "Correct the message: Kakao rejects it. `kakao_message` says why."
        case .rejected: "See Kakao's error code in docs/errors.md."
        case .unavailable:
            "Kakao was unavailable. The next attempt is at `retry_at`; if there is none, send the message again."
        case .noResponse, .notReported, .serverStopped:
            "It is unknown whether the receiver has the message. Ask before you send it again."
        case .canceled: "The message was canceled."
        case .expired: "The message's `expires_at` came first."
        }
    }

}

extension Kind where Value == Reason {
    static var reason: Kind { .choice.named("MessageFailureReason") }
}

/// Why Kakao, or this server, does not send: a reason with Kakao's words.
struct Refusal: Error, Equatable {
    let reason: Reason
    var code: Int?
    var kakaoMessage: String?
    /// The scopes that the sender must agree to.
    var scopes: [String] = []
}

extension Refusal {
    /// The refusal of a call about the sender, which sends no message; `nil` for an error that passes by itself.
    init?(_ error: KakaoError) {
        guard case .refused(_, let code, let text) = error.kind, error.disposition != .retry, error.disposition != .wait
        else { return nil }
        self.init(code: code, message: text, scopes: error.requiredScopes, isMemo: true)
    }

    /// The refusal of a request, or of one of its receivers, by Kakao's error code.
    ///
    /// (Kakao, "REST API: Response code"; kinds of messages: "KakaoTalk Message".)
    init(code: KakaoErrorCode?, message: String, scopes: [String] = [], isMemo: Bool) {
        let reason: Reason =
            switch code {
            case .invalidCredential: .loginRequired
            case .missingScope: .missingScope
            case .featureDisabled, .noPermission, .suspended, .actionNotAllowed: .notAllowed
            case .quotaExceeded, .paidQuotaExceeded: .appQuota
            case .userNotLinked: isMemo ? .loginRequired : .notLinked
            case .notTalkUser: isMemo ? .senderWithoutTalk : .noTalkUser
            case .notFriend: .notAFriend
            case .deviceUnsupported: .unsupportedDevice
            case .messagesRefused: .refusesMessages
            case .senderMonthlyLimitExceeded: .senderMonthlyQuota
            case .senderDailyLimitExceeded: .senderQuota
            case .receiverDailyLimitExceeded: .receiverQuota
            case .pairDailyLimitExceeded: .pairQuota
            case .invalidParameter: .invalidMessage
            default: .rejected
            }
        self.init(reason: reason, code: code?.rawValue, kakaoMessage: message.isEmpty ? nil : message, scopes: scopes)
    }
}
