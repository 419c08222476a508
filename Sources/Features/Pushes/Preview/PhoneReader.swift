import Endpoints
import FoundationEssentials
import JSON
import KakaoAPI

/// Reads the member of a message for one platform as its phones do. Pure.
struct PhoneReader {
    /// The largest notification that Apple (Generating a remote notification) and Google accept, and the largest `custom_field` of
    /// Kakao for Android, in bytes.
    private static let maximumBytes = 4096
    /// The largest notification for iPhones in Kakao's documents of version 1, in bytes.
    private static let documentedBytes = 256
    private static let maximumLinks = 10
    private static let maximumLinkBytes = 2048
    /// The names that apps usually give to a text in `custom_field`.
    private static let usualTextNames = ["text", "body", "message", "alert", "content"]
    /// The members of Apple's `aps` object that Kakao's `for_apns` has too.
    private static let namesInAPS = ["badge", "sound", "content-available", "category", "mutable-content"]

    /// A type of Kakao's documents.
    private enum DocumentedType: String {
        case text = "a text"
        case integer = "an integer"
        case boolean = "true or false"

        func includes(_ value: JSONValue) -> Bool {
            switch self {
            case .text: value.string != nil
            case .integer: value.integer != nil
            case .boolean: value.bool != nil
            }
        }
    }

    /// The members of a platform with one of these types ("Push, PushMsgJson"). ``readAPNS()`` and ``readFCM()`` check the others.
    private static func documentedTypes(on platform: PushType) -> KeyValuePairs<String, DocumentedType> {
        switch platform {
        case .apns:
            [
                "badge": .integer, "sound": .text, "push_alert": .boolean, "content-available": .integer,
                "category": .text, "return_url": .text, "push_token": .text,
            ]
        case .fcm:
            [
                "collapse": .text, "delay_while_idle": .boolean, "time_to_live": .integer, "dry_run": .boolean,
                "priority": .text, "return_url": .text, "push_token": .text,
            ]
        }
    }

    private let object: JSONObject
    private let conditions: PushPreview.Conditions
    private(set) var phone: PhoneView
    private(set) var warnings: [PushWarning] = []

    /// - Parameters:
    ///   - object: The member's value.
    ///   - member: The member's name.
    init(_ object: JSONObject, _ platform: PushType, member: String, _ conditions: PushPreview.Conditions) {
        self.object = object
        self.conditions = conditions
        phone = PhoneView(platform: platform, member: member)
        switch platform {
        case .apns: readAPNS()
        case .fcm: readFCM()
        }
        checkTypes()
        if phone.shownBy == nil { warnOfNothing() }
        if let field = customField { collectLinks(in: .object(field), at: path("custom_field")) }
        checkSize()
        checkToken()
    }

    private var customField: JSONObject? { object["custom_field"]?.object }

    /// The `custom_field` as it is sent, with the push's id; `nil` if there is none, or if it is no object.
    private var sentCustomField: JSONObject? {
        PushIDMember(conditions.idField, id: .zero)?.added(to: object)["custom_field"]?.object ?? customField
    }

    /// The place of a member that has the name of the one with the push's id; `nil` if there is none.
    var takenIDField: String? {
        guard let name = conditions.idField?.text, customField?[name] != nil else { return nil }
        return path("custom_field.\(name)")
    }

    private func path(_ name: String) -> String { "\(phone.member).\(name)" }

    // MARK: Platforms

    private mutating func readAPNS() {
        if object["push_alert"]?.bool != false {
            switch object["message"] {
            case .string(let text):
                if !text.isBlank { phone.text = PhoneText(path("message"), .text(text)) }
            case .object(let alert):
                phone.title = text(of: alert, at: "message", "title", key: "title-loc-key")
                phone.subtitle = text(of: alert, at: "message", "subtitle", key: "subtitle-loc-key")
                phone.text = text(of: alert, at: "message", "body", key: "loc-key")
            case nil, .null: break
            case .bool, .number, .array: warnOfType("message", "a text or an object")
            }
        }
        showBySystem(title: .titleOnIPhone, text: .textOnIPhone)
        // Without a text, an iPhone wakes the app only for new content.
        let hasContent = object["content-available"]?.integer == 1 || object["content-available"]?.bool == true
        if phone.shownBy == nil, hasContent { showByApp() }
        checkCustomField()
        var aps = JSONObject()
        aps["alert"] = object["message"]
        for name in Self.namesInAPS { aps[name] = object[name] }
        var payload: JSONObject = ["aps": .object(aps)]
        for (name, value) in sentCustomField?.members ?? [] { payload[name] = value }
        phone.payloadBytes = JSONValue.object(payload).bytes().count
    }

    private mutating func readFCM() {
        switch object["notification"] {
        case .object(let notification):
            phone.title = text(of: notification, at: "notification", "title", key: "title_loc_key")
            phone.text = text(of: notification, at: "notification", "body", key: "body_loc_key")
            collectLinks(in: .object(notification), at: path("notification"))
            if conditions.kakaoVersion == .v1 {
                warn(
                    .otherVersion,
                    "notification",
                    "Kakao documents `notification` for version 2 only (kakao.push_version), so version 1 may not show it."
                )
            }
        case nil, .null: break
        case .string, .bool, .number, .array: warnOfType("notification", "an object")
        }
        showBySystem(title: .titleOnAndroid, text: .textOnAndroid)
        if phone.shownBy == nil { showByApp() }
        checkCustomField()
        if object["dry_run"]?.bool == true {
            warn(.dryRun, "dry_run", "With `dry_run`, Google checks the message and sends it to no phone. Remove it.")
        }
        var payload = JSONObject()
        payload["notification"] = object["notification"]
        payload["data"] = sentCustomField.map { .object($0) } ?? object["custom_field"]
        phone.payloadBytes = JSONValue.object(payload).bytes().count
    }

    // MARK: Texts

    /// Returns a text that the system shows: that of the key, if there is one, since it has precedence.
    private mutating func text(of object: JSONObject, at place: String, _ name: String, key: String) -> PhoneText? {
        if object.has(key) {
            if object[key]?.string == nil { warnOfType("\(place).\(key)", "a text") }
            return PhoneText(path("\(place).\(key)"), .key(object[key]?.string ?? ""))
        }
        switch object[name] {
        case .string(let text): return text.isBlank ? nil : PhoneText(path("\(place).\(name)"), .text(text))
        case nil, .null: return nil
        case .bool, .number, .array, .object:
            warnOfType("\(place).\(name)", "a text")
            return nil
        }
    }

    /// Lets the system show the texts that were found.
    private mutating func showBySystem(title: PhoneText.Room, text: PhoneText.Room) {
        phone.title?.fit(into: title)
        phone.subtitle?.fit(into: title)
        phone.text?.fit(into: text)
        guard let first = phone.texts.first else { return }
        phone.shownBy = .system
        phone.beginning = first
        for text in phone.texts {
            guard let visible = text.visible else { continue }
            warnings.append(
                PushWarning(
                    .textCut,
                    text.path,
                    "A phone shows about the first \(visible.unicodeScalars.count) characters before the notification is opened."
                )
            )
        }
    }

    /// Lets the app draw the texts of `custom_field`: those with the usual names, and the one of the setting.
    private mutating func showByApp() {
        guard let field = customField, !field.isEmpty else { return }
        phone.shownBy = .app
        let named = conditions.advertisingText
        let parent = named?.parent
        if let texts = parent.map({ field[$0]?.object }) ?? field {
            let place = path((["custom_field"] + (parent?.names ?? [])).joined(separator: "."))
            let text = { (name: String) -> PhoneText? in
                guard let text = texts[name]?.string, !text.isBlank else { return nil }
                return PhoneText("\(place).\(name)", .text(text))
            }
            phone.title = text("title")
            phone.text = Self.usualTextNames.lazy.compactMap(text).first
            phone.beginning = named?.names.last.flatMap(text)
        }
        guard let beginning = phone.beginning, beginning != phone.title else { return }
        phone.text = beginning
    }

    // MARK: Links

    /// Collects the addresses in a value.
    private mutating func collectLinks(in value: JSONValue, at path: String) {
        switch value {
        case .string(let text):
            guard text.utf8.count <= Self.maximumLinkBytes, text.isURL else { return }
            phone.links.append(PhoneView.Link(path: path, url: text))
        case .object(let object):
            for (name, value) in object.members where phone.links.count < Self.maximumLinks && value.mayHaveLink {
                collectLinks(in: value, at: "\(path).\(name.shownInWarnings)")
            }
        case .array(let elements):
            for (index, value) in elements.enumerated()
            where phone.links.count < Self.maximumLinks && value.mayHaveLink {
                collectLinks(in: value, at: "\(path)[\(index)]")
            }
        case .null, .bool, .number: break
        }
    }

    // MARK: Warnings

    private mutating func warn(_ code: PushWarning.Code, _ name: String?, _ message: String) {
        warnings.append(PushWarning(code, name.map(path) ?? phone.member, message))
    }

    private mutating func warnOfType(_ name: String, _ allowed: String) {
        warn(.wrongType, name, "`\(name)` must be \(allowed). Kakao rejects the push, or phones do not show it.")
    }

    private mutating func checkTypes() {
        for (name, type) in Self.documentedTypes(on: phone.platform) {
            guard let value = object[name], !value.isNull, !type.includes(value) else { continue }
            let problem = "Kakao documents \(type.rawValue) for `\(name)`, and may reject or ignore anything else."
            warn(.wrongType, name, problem)
        }
    }

    private mutating func checkCustomField() {
        guard object.has("custom_field"), customField == nil else { return }
        warnOfType("custom_field", "an object")
    }

    private mutating func warnOfNothing() {
        let (texts, remedy) =
            switch phone.platform {
            case .apns where object["push_alert"]?.bool == false:
                ("`push_alert` is false", "Remove it to show `message`.")
            case .apns: ("there is no `message`", "Add it.")
            case .fcm: ("there is neither `notification` nor `custom_field`", "Add one of them.")
            }
        warn(.nothingShown, nil, "Phones show nothing of it, since \(texts). \(remedy)")
    }

    private mutating func checkSize() {
        let bytes = phone.payloadBytes
        let customBytes = phone.platform == .fcm ? sentCustomField.map { JSONValue.object($0).bytes().count } ?? 0 : 0
        if customBytes > Self.maximumBytes {
            warn(
                .tooLarge,
                "custom_field",
                "`custom_field` has \(customBytes) bytes. Kakao allows \(Self.maximumBytes): it rejects the push, or accepts it and reports "
                    + "nothing when Google rejects it. Shorten it."
            )
        } else if bytes > Self.maximumBytes {
            let receiver = phone.platform == .apns ? "Apple" : "Google"
            warn(
                .tooLarge,
                nil,
                "It has about \(bytes) bytes. \(receiver) rejects more than \(Self.maximumBytes), and Kakao does not report that. Shorten it."
            )
        } else if phone.platform == .apns, conditions.kakaoVersion == .v1, bytes > Self.documentedBytes {
            warn(
                .tooLarge,
                nil,
                "It has about \(bytes) bytes. Kakao's documents of version 1 allow \(Self.documentedBytes), Apple \(Self.maximumBytes). "
                    + "Send it to a tester first."
            )
        }
    }

    private mutating func checkToken() {
        let hasToken = object.has("push_token")
        if conditions.bypass, !hasToken {
            warn(
                .tokenMissing,
                nil,
                "With `bypass`, Kakao sends to the `push_token` of the message, and there is none here."
            )
        } else if !conditions.bypass, hasToken {
            warn(
                .tokenUnused,
                "push_token",
                "Kakao reads `push_token` with `bypass` only. The push goes to the users' devices."
            )
        }
    }
}

extension JSONValue {
    /// Whether it is an address or may contain one.
    fileprivate var mayHaveLink: Bool {
        switch self {
        case .string(let text): text.isURL
        case .array, .object: true
        case .null, .bool, .number: false
        }
    }
}

extension String {
    /// Whether a phone shows nothing of it.
    fileprivate var isBlank: Bool { unicodeScalars.allSatisfy(\.properties.isWhitespace) }

    /// Whether it is an address, such as `https://…` or `app://…`.
    fileprivate var isURL: Bool {
        var scheme = utf8.prefix(32)
        guard let colon = scheme.firstIndex(of: UInt8(ascii: ":")), utf8[colon...].starts(with: "://".utf8) else {
            return false
        }
        scheme = utf8[..<colon]
        return scheme.first.map(isLetter) == true
            && scheme.allSatisfy { isLetter($0) || (0x30...0x39).contains($0) || "+-.".utf8.contains($0) }
    }

    private func isLetter(_ octet: UInt8) -> Bool { (0x61...0x7A).contains(octet | 0x20) }
}
