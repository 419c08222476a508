import JSON
import Schemas

/// Why a push did not reach a user.
enum UnreachedCause: String, Sendable, CaseIterable {
    /// `except` of the push names the user.
    case excluded
    /// The push is advertising, and the user has not consented to it: `pushes.advertising_tag`.
    case withoutConsent = "without_consent"
    /// The user has no device here that the message addresses.
    case noDevice = "no_device"
    /// An operator ended the push before the user's batch was sent.
    case canceled
    /// The second person rejected the push before the user's batch was sent.
    case rejected
    /// `expires_at` ended the push before the user's batch was sent.
    case expired
    /// Advertising was canceled or expired outside its hours, before the user's batch was sent.
    case night
    /// The last response to the user's batch was an error of Kakao.
    case kakaoError = "kakao_error"
    /// Kakao has not responded to the user's batch, as far as the server knows.
    case noAnswer = "no_answer"
}

/// The users of a push that can be exported.
enum ExportedUsers: String, Sendable, CaseIterable {
    /// The users whom the preparation skipped.
    case skipped
    /// The users of failed batches.
    case failed
    /// The users of batches that were not sent before the push was canceled or expired.
    case unsent
    /// The users of batches of which it is unknown whether Kakao accepted them, also those that were to be sent again when the push ended.
    case uncertain

    /// The causes that a request can choose; none if all users are exported.
    var causes: [UnreachedCause] {
        switch self {
        case .skipped: [.excluded, .withoutConsent, .noDevice]
        case .unsent: [.canceled, .rejected, .expired, .night]
        case .failed, .uncertain: []
        }
    }

    /// Those causes of which users are exported without a choice. The others are a reason to send nothing to the user by any other way
    /// either: the company has left the user out or has rejected the push, the user has not consented, or it was night.
    var defaultCauses: [UnreachedCause] {
        switch self {
        case .skipped: [.noDevice]
        case .unsent: [.canceled, .expired]
        case .failed, .uncertain: []
        }
    }
}

extension Kind where Value == [UnreachedCause] {
    /// Causes that a request can choose, separated by commas.
    static var chosenCauses: Kind {
        let choices = ExportedUsers.allCases.flatMap(\.causes)
        let choice = "(\(choices.map(\.rawValue).joined(separator: "|")))"
        return .input(
            .text(pattern: "^\(choice)(,\(choice)){0,\(choices.count - 1)}$"),
            allowed: "one or more of \(choices.map(\.rawValue).joined(separator: ", ")), separated by commas"
        ) { value throws(InvalidValue) in
            let comma = UInt8(ascii: ",")
            let parts = value.string?.utf8.split(
                separator: comma,
                maxSplits: choices.count,
                omittingEmptySubsequences: false
            )
            let causes = (parts ?? []).map { part in choices.first { $0.rawValue.utf8.elementsEqual(part) } }
            guard (1...choices.count).contains(causes.count), !causes.contains(nil) else { throw InvalidValue() }
            return causes.compactMap(\.self)
        }
    }
}
