import JSON
import Schemas

/// A reason for which phones may show a push in another way than its author expects, or not at all, although Kakao accepts it.
struct PushWarning: Sendable, Equatable {
    /// The codes, which never change. `docs/delivery.md` lists them with their remedies.
    enum Code: String, CaseIterable, Sendable {
        /// The message addresses no phone.
        case noPhone = "no-phone"
        /// Kakao does not know a member of the message.
        case unknownMember = "unknown-member"
        /// A member belongs to the other version of Kakao's API.
        case otherVersion = "other-version"
        /// A member is not of the type that Kakao documents.
        case wrongType = "wrong-type"
        /// The phones of a platform show nothing.
        case nothingShown = "nothing-shown"
        /// FCM checks the message and sends it to no phone.
        case dryRun = "dry-run"
        /// Only a part of a text is visible at first.
        case textCut = "text-cut"
        /// The notification is larger than Kakao, Apple or Google document.
        case tooLarge = "too-large"
        /// A message that contains its push token has none for a platform.
        case tokenMissing = "token-missing"
        /// The message contains a push token that Kakao does not read.
        case tokenUnused = "token-unused"
        /// A notification begins with the mark of advertising, and the push is not of that kind.
        case markWithoutKind = "mark-without-kind"
        /// The push is advertising, and would be rejected without the mark.
        case markMissing = "mark-missing"
        /// A member has the name of the one to which the server adds the push's id, and the push would be rejected.
        case idFieldTaken = "id-field-taken"
        /// The push is advertising, and expires before its hours begin.
        case expiresBeforeHours = "expires-before-hours"
        /// Kakao has not confirmed all changes of its users' devices.
        case pendingDevices = "pending-devices"
    }

    let code: Code
    /// The place in the message: `for_fcm.notification`; `nil` for the whole message.
    let path: String?
    /// The problem and its remedy.
    let message: String

    init(_ code: Code, _ path: String? = nil, _ message: String) {
        self.code = code
        self.path = path
        self.message = message
    }

    static let shape = Shape<PushWarning>(
        "PushWarning",
        [
            .member("code", Kind<Code>.choice, "What it is about.", \.code),
            .nullable("path", .text, "The place in the message; null for the whole message.", \.path),
            .member("message", .text, "What is wrong, and what to do.", \.message),
        ]
    )
}

extension [PushWarning] {
    /// The warnings as JSON.
    var json: [UInt8] {
        var json = JSONWriter()
        PushWarning.shape.kind.array.write(self, &json)
        return json.bytes
    }

    /// The value of the header field `X-Warnings`: each code once. It has as many as there are codes at most.
    var headerValue: String {
        PushWarning.Code.allCases.filter { code in contains { $0.code == code } }.map(\.rawValue).joined(
            separator: ", "
        )
    }
}
