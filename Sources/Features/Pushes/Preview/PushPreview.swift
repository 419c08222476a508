import JSON
import KakaoAPI
import Schemas

/// What phones show of a message in Kakao's format, and what may be wrong with it. Pure.
struct PushPreview: Sendable, Equatable {
    /// What decides how a message is shown, apart from the message.
    struct Conditions: Sendable {
        /// The version of Kakao's API that the server calls.
        var kakaoVersion: PushVersion
        /// The version whose format the message has.
        var format: PushVersion
        /// `nil` if the request did not say.
        var kind: PushKind?
        /// Whether the message contains its push token.
        var bypass = false
        /// The text of `custom_field` with which notifications begin that the app draws: `pushes.advertising_text`.
        var advertisingText: MemberPath?
        /// The member of `custom_field` to which the server adds the push's id; `nil` for none.
        var idField: PushIDField?
    }

    private static let maximumFirstWords = 80
    private static let maximumUnknownMembers = 5

    /// The notification on each platform that the message addresses.
    private(set) var phones: [PhoneView] = []
    private(set) var warnings: [PushWarning] = []
    /// The beginning of what a phone shows, for lists.
    private(set) var firstWords = ""
    /// The reason for which the message must not be sent as advertising; `nil` for other kinds of pushes.
    private(set) var markFault: MarkFault?
    /// The place of a member that has the name of the one with the push's id; `nil` if there is none.
    private(set) var takenIDField: String?

    /// Creates the preview of no message.
    init() {}

    init(_ message: JSONObject, _ conditions: Conditions) {
        // The server renames the member of the other version, unless that of its own is there too.
        let given = conditions.kakaoVersion.androidMember
        let android = message[given] == nil ? conditions.format.androidMember : given
        var unknownMembers = 0
        for (name, value) in message.members {
            guard let platform = Self.platform(of: name) else {
                unknownMembers += 1
                if unknownMembers <= Self.maximumUnknownMembers { warnings.append(.unknownMember(name, given)) }
                continue
            }
            guard !value.isNull else { continue }
            guard let object = value.object else {
                let problem = "`\(name)` must be an object. Kakao rejects the push, or shows nothing."
                warnings.append(PushWarning(.wrongType, name, problem))
                continue
            }
            let reader = PhoneReader(object, platform, member: name, conditions)
            if conditions.kind == .advertising, markFault == nil { markFault = reader.phone.markFault }
            guard platform == .apns || name == android else {
                warnings.append(.otherVersion(name, conditions.kakaoVersion))
                continue
            }
            phones.append(reader.phone)
            warnings += reader.warnings
            takenIDField = takenIDField ?? reader.takenIDField
        }
        if phones.isEmpty { warnings.insert(.noPhone(android), at: 0) }
        if conditions.kind != .advertising {
            warnings += phones.filter(\.beginsWithMark).map { .markWithoutKind($0.member) }
        }
        firstWords =
            Self.firstWords(of: phones) ?? Self.shortened(JSONValue.object(message.maskingPushTokens).description)
    }

    /// Adds a warning that does not follow from the message.
    mutating func add(_ warning: PushWarning) { warnings.append(warning) }

    private static func platform(of member: String) -> PushType? {
        switch member {
        case "for_apns": .apns
        case PushVersion.v1.androidMember, PushVersion.v2.androidMember: .fcm
        default: nil
        }
    }

    /// Returns the first words of the first phone that has some.
    private static func firstWords(of phones: [PhoneView]) -> String? {
        guard let phone = phones.first(where: { !$0.texts.isEmpty }) else { return nil }
        return shortened(phone.texts.map { $0.text ?? $0.key ?? "" }.joined(separator: ": "))
    }

    /// Returns the beginning of a text in one line.
    private static func shortened(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.prefix(maximumFirstWords).map { $0.isControl ? " " : $0 }))
    }

    /// The warnings of a preview that is not sent: also that it would be rejected.
    var allWarnings: [PushWarning] {
        var faults: [PushWarning] = []
        if let markFault {
            faults.append(
                PushWarning(.markMissing, nil, "The push would be rejected. It must be \(markFault.allowed).")
            )
        }
        if let takenIDField {
            let allowed = Self.allowed(without: takenIDField)
            faults.append(
                PushWarning(.idFieldTaken, takenIDField, "The push would be rejected. It must be \(allowed).")
            )
        }
        return faults + warnings
    }

    /// Returns the messages that are allowed if one has a member with the name of the push's id, in words that follow "must be".
    static func allowed(without takenIDField: String) -> String {
        "a message without \(takenIDField), where the server puts the push's id: see the setting pushes.id_field"
    }

    static let shape = Shape<PushPreview>(
        "PushPreview",
        [
            .array(
                "phones",
                PhoneView.shape.kind,
                "What phones show, for each platform that the message addresses.",
                \.phones
            ),
            .array("warnings", PushWarning.shape.kind, "What may be wrong with the message.", \.allWarnings),
            .member("first_words", .text, "The beginning of what a phone shows, as lists have it.", \.firstWords),
        ]
    )
}

extension PushWarning {
    fileprivate static func noPhone(_ android: String) -> PushWarning {
        PushWarning(
            .noPhone,
            nil,
            "The message addresses no phone: nothing is shown, whatever Kakao answers. Add for_apns or \(android)."
        )
    }

    fileprivate static func unknownMember(_ name: String, _ android: String) -> PushWarning {
        let name = name.shownInWarnings
        return PushWarning(
            .unknownMember,
            name,
            "Kakao does not know `\(name)` at the top of a message. Move it into for_apns or \(android), or remove it."
        )
    }

    fileprivate static func otherVersion(_ name: String, _ version: PushVersion) -> PushWarning {
        PushWarning(
            .otherVersion,
            name,
            "Kakao's API \(version.rawValue) reads \(version.androidMember), not \(name): phones with Android show nothing of it."
        )
    }

    fileprivate static func markWithoutKind(_ member: String) -> PushWarning {
        PushWarning(
            .markWithoutKind,
            member,
            "It begins with \(PushMessage.advertisingMark), and the kind is not `advertising`: it is sent at any hour, also to users "
                + "without consent."
        )
    }
}

extension String {
    /// The beginning of a name that a request contains, without control characters.
    var shownInWarnings: String {
        String(String.UnicodeScalarView(unicodeScalars.prefix(64).map { $0.isControl ? "?" : $0 }))
    }
}

extension Unicode.Scalar {
    /// Whether it is a control character, which PostgreSQL or a terminal may not accept.
    fileprivate var isControl: Bool { value < 0x20 || (0x7F..<0xA0).contains(value) }
}

extension PushPreview.Conditions {
    /// The conditions of a message with the settings at present.
    init(_ settings: PushSettings, kakaoVersion: PushVersion, format: PushVersion, kind: PushKind?, bypass: Bool) {
        self.init(
            kakaoVersion: kakaoVersion,
            format: format,
            kind: kind,
            bypass: bypass,
            advertisingText: settings.advertisingText,
            idField: settings.idField
        )
    }
}
