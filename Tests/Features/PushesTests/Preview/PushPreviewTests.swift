import JSON
import KakaoAPI
import Testing

@testable import Pushes

/// Tests of what phones show of a message, without a server.
@Suite struct PushPreviewTests {
    private static func preview(
        _ message: JSONObject,
        _ version: PushVersion = .v2,
        change: (inout PushPreview.Conditions) -> Void = { _ in }
    ) -> PushPreview {
        var conditions = PushPreview.Conditions(kakaoVersion: version, format: .format(of: message))
        change(&conditions)
        return PushPreview(message, conditions)
    }

    /// The texts of each phone, each with its place in the platform's member.
    private static func texts(_ preview: PushPreview) -> [String] {
        preview.phones.flatMap { phone in
            phone.texts.map { "\($0.path) = \($0.text ?? "[\($0.key ?? "")]")" }
                + (phone.texts.isEmpty ? [phone.member] : [])
        }
    }

    private static func codes(_ preview: PushPreview) -> [String] {
        preview.warnings.map { [$0.code.rawValue, $0.path].compactMap(\.self).joined(separator: " ") }
    }

    // MARK: Texts

    @Test(
        "A phone's system shows the alert of an iPhone and the notification of FCM; the rest is up to the app",
        arguments: [
            (["for_apns": ["message": "Hello"]], .system, ["for_apns.message = Hello"]),
            (
                ["for_apns": ["message": ["title": "Shop", "subtitle": "Sale", "body": "Half price"]]], .system,
                [
                    "for_apns.message.title = Shop", "for_apns.message.subtitle = Sale",
                    "for_apns.message.body = Half price",
                ]
            ),
            (
                ["for_apns": ["message": ["loc-key": "HI", "loc-args": ["a"]]]], .system,
                ["for_apns.message.loc-key = [HI]"]
            ),
            // The key has precedence.
            (
                ["for_apns": ["message": ["title": "Shop", "title-loc-key": "T", "body": " "]]], .system,
                ["for_apns.message.title-loc-key = [T]"]
            ),
            (["for_apns": ["message": "Hello", "push_alert": false]], nil, ["for_apns"]),
            (["for_apns": ["message": "", "badge": 1]], nil, ["for_apns"]),
            (["for_apns": ["custom_field": ["text": "a"]]], nil, ["for_apns"]),
            (
                ["for_apns": ["content-available": 1, "custom_field": ["text": "a"]]], .app,
                ["for_apns.custom_field.text = a"]
            ),
            (
                ["for_fcm": ["notification": ["title": "Shop", "body": "Sale"], "custom_field": ["text": "a"]]],
                .system,
                ["for_fcm.notification.title = Shop", "for_fcm.notification.body = Sale"]
            ),
            (
                ["for_fcm": ["notification": ["title_loc_key": "T", "body": "Sale"]]], .system,
                ["for_fcm.notification.title_loc_key = [T]", "for_fcm.notification.body = Sale"]
            ),
            (
                ["for_fcm": ["custom_field": ["title": "Shop", "body": "Sale", "id": 7]]], .app,
                ["for_fcm.custom_field.title = Shop", "for_fcm.custom_field.body = Sale"]
            ),
            (["for_fcm": ["custom_field": ["id": 7]]], .app, ["for_fcm"]),
            (["for_fcm": ["custom_field": [:]]], nil, ["for_fcm"]),
            (["for_fcm": [:]], nil, ["for_fcm"]),
        ] as [(JSONObject, PhoneView.Presenter?, [String])]
    )
    func shown(message: JSONObject, presenter: PhoneView.Presenter?, texts: [String]) {
        let preview = Self.preview(message)
        #expect(preview.phones.map(\.shownBy) == [presenter])
        #expect(Self.texts(preview) == texts)
        #expect(Self.codes(preview) == (presenter == nil ? ["nothing-shown \(preview.phones[0].member)"] : []))
    }

    @Test("The setting names the text with which an app begins, also in an object within custom_field")
    func namedText() {
        for (path, title, text) in [
            ("alert.head", "Shop", "Sale"), ("alert.title", "Shop", "Half price"), ("alert.none", "Shop", "Half price"),
            ("none.head", nil, nil),
        ] {
            let message: JSONObject = [
                "for_fcm": ["custom_field": ["alert": ["title": "Shop", "head": "Sale", "text": "Half price"]]]
            ]
            let phone = Self.preview(message) { $0.advertisingText = MemberPath(path) }.phones[0]
            #expect(phone.title?.text == title, "\(path)")
            #expect(phone.text?.text == text, "\(path)")
            #expect(phone.beginning?.text == (path == "alert.head" ? "Sale" : path == "alert.title" ? "Shop" : nil))
        }
    }

    @Test("A path names members, and nothing else")
    func paths() {
        #expect(MemberPath("alert.title")?.text == "alert.title")
        #expect(MemberPath("제목")?.names == ["제목"])
        for text in [
            "", ".", "a.", ".a", "a..b", "a b", "a.\u{0}", "1.2.3.4.5.6.7.8.9", String(repeating: "a", count: 65),
        ] {
            #expect(MemberPath(text) == nil, "\(text)")
        }
    }

    @Test(
        "The first words are those of the first phone with a text, in one line, or else of the message, without its token"
    )
    func firstWords() {
        let iPhone: JSONObject = [
            "message": ["title": "Shop\u{0}\n", "body": .string(String(repeating: "가", count: 100))]
        ]
        let words = Self.preview(["for_fcm": ["custom_field": ["id": 1]], "for_apns": .object(iPhone)]).firstWords
        #expect(words == "Shop  : " + String(repeating: "가", count: 72))
        #expect(Self.preview(["for_apns": ["message": ["loc-key": "HI"]]]).firstWords == "HI")
        let silent: JSONObject = ["for_fcm": ["push_token": "secret", "custom_field": ["id": 1]]]
        #expect(Self.preview(silent).firstWords == #"{"for_fcm":{"push_token":"***","custom_field":{"id":1}}}"#)
    }

    @Test("Links are found wherever a tap may lead, each with its place, and at most ten")
    func links() {
        let field: JSONObject = [
            "url": "https://example.com/a?b=c", "deep": ["app": ["shop://item/1", "no link", "1a://b", "a b://c"]],
            "text": "see https://example.com",
        ]
        let message: JSONObject = [
            "for_fcm": [
                "return_url": "https://example.com/failed",
                "notification": ["body": "a", "click_action": "intent://x"],
                "custom_field": .object(field),
            ]
        ]
        #expect(
            Self.preview(message).phones[0].links.map { "\($0.path) \($0.url)" } == [
                "for_fcm.notification.click_action intent://x", "for_fcm.custom_field.url https://example.com/a?b=c",
                "for_fcm.custom_field.deep.app[0] shop://item/1",
            ]
        )
        let many = JSONValue.array((1...100).map { .string("https://example.com/\($0)") })
        #expect(Self.preview(["for_fcm": ["custom_field": ["urls": many]]]).phones[0].links.count == 10)
    }

    // MARK: Cuts

    @Test("A text that is too long for a phone is cut where letters of Korea take twice the room, or after four lines")
    func cuts() {
        func visible(_ message: JSONObject) -> [Int?] {
            Self.preview(message).phones[0].texts.map { $0.visible?.count }
        }
        let (latin, korean) = (String(repeating: "a", count: 241), String(repeating: "가", count: 121))
        #expect(visible(["for_apns": ["message": .string(latin)]]) == [178])
        #expect(visible(["for_apns": ["message": .string(korean)]]) == [89])
        #expect(visible(["for_apns": ["message": "1\n2\n3\n4\n5"]]) == [7])
        #expect(visible(["for_apns": ["message": "1\n2\n3\n4"]]) == [nil])
        #expect(
            visible(["for_fcm": ["notification": ["title": .string(latin), "body": .string(latin)]]]) == [65, 240]
        )
        #expect(visible(["for_fcm": ["notification": ["body": .string(korean)]]]) == [120])
        #expect(visible(["for_fcm": ["notification": ["body": .string(String(korean.dropLast()))]]]) == [nil])
        // The app decides how much it shows.
        #expect(visible(["for_fcm": ["custom_field": ["text": .string(latin)]]]) == [nil])
        #expect(Self.codes(Self.preview(["for_apns": ["message": .string(latin)]])) == ["text-cut for_apns.message"])
    }

    // MARK: Warnings

    @Test(
        "A message that phones show in another way than expected has warnings",
        arguments: [
            ([:], ["no-phone"]),
            (["for_apns": .null], ["no-phone"]),
            (["notification": ["title": "a"]], ["no-phone", "unknown-member notification"]),
            (["for_apns": "Hello"], ["no-phone", "wrong-type for_apns"]),
            (["for_apns": ["message": 1]], ["wrong-type for_apns.message", "nothing-shown for_apns"]),
            (
                ["for_apns": ["message": ["title": 1, "body": "a"], "custom_field": "b"]],
                ["wrong-type for_apns.message.title", "wrong-type for_apns.custom_field"]
            ),
            (
                [
                    "for_apns": [
                        "message": "a", "badge": "3", "sound": 1, "push_alert": "false", "content-available": true,
                        "category": 1,
                    ]
                ],
                ["badge", "sound", "push_alert", "content-available", "category"].map { "wrong-type for_apns.\($0)" }
            ),
            (
                [
                    "for_fcm": [
                        "custom_field": ["text": "a"], "collapse": 1, "delay_while_idle": 0, "time_to_live": "60",
                        "dry_run": "true", "priority": true, "return_url": 1,
                    ]
                ],
                ["collapse", "delay_while_idle", "time_to_live", "dry_run", "priority", "return_url"].map {
                    "wrong-type for_fcm.\($0)"
                }
            ),
            (
                ["for_apns": ["message": "a", "badge": 3, "sound": "default", "category": .null]], []
            ),
            (["for_apns": ["message": ["loc-key": 1]]], ["wrong-type for_apns.message.loc-key"]),
            (["for_fcm": ["notification": "a"]], ["wrong-type for_fcm.notification", "nothing-shown for_fcm"]),
            (["for_fcm": ["notification": ["body": "a"], "dry_run": true]], ["dry-run for_fcm.dry_run"]),
            (["for_fcm": ["notification": ["body": "a"], "push_token": "t"]], ["token-unused for_fcm.push_token"]),
            (
                ["for_fcm": ["custom_field": ["a": .string(String(repeating: "가", count: 1400))]]],
                ["too-large for_fcm.custom_field"]
            ),
            (
                [
                    "for_fcm": [
                        "notification": ["title_loc_key": .string(String(repeating: "k", count: 4000))],
                        "custom_field": ["a": .string(String(repeating: "a", count: 100))],
                    ]
                ],
                ["too-large for_fcm"]
            ),
            (["for_fcm": ["notification": ["body": "(광고) Sale"]]], ["mark-without-kind for_fcm"]),
            (
                ["for_apns": ["message": "(광고) Sale"], "for_fcm": ["notification": ["body": "(광고) Sale"]]],
                ["mark-without-kind for_apns", "mark-without-kind for_fcm"]
            ),
            (["for_apns": ["message": "a"], "name": 1], ["unknown-member name"]),
        ] as [(JSONObject, [String])]
    )
    func warnings(message: JSONObject, codes: [String]) {
        let preview = Self.preview(message)
        #expect(Self.codes(preview) == codes)
        #expect(preview.warnings.headerValue.utf8.allSatisfy { (0x20...0x7E).contains($0) })
    }

    @Test("Kakao reads the member of its version: the server renames the other one, unless both are there")
    func versions() {
        let text: JSONValue = ["custom_field": ["text": "a"]]
        func members(_ message: JSONObject, _ format: PushVersion, _ kakao: PushVersion) -> [String] {
            let preview = Self.preview(message, kakao) { $0.format = format }
            return preview.phones.map(\.member) + Self.codes(preview)
        }
        #expect(members(["for_gcm": text], .v1, .v1) == ["for_gcm"])
        #expect(members(["for_gcm": text], .v1, .v2) == ["for_gcm"])
        #expect(members(["for_fcm": text], .v2, .v1) == ["for_fcm"])
        // With POST /v1/push/send, the format is that of version 1.
        #expect(members(["for_fcm": text], .v1, .v1) == ["no-phone", "other-version for_fcm"])
        #expect(members(["for_fcm": text], .v1, .v2) == ["for_fcm"])
        #expect(members(["for_gcm": text, "for_fcm": text], .v1, .v1) == ["for_gcm", "other-version for_fcm"])
        #expect(members(["for_gcm": text, "for_fcm": text], .v1, .v2) == ["for_fcm", "other-version for_gcm"])
        let shown: JSONObject = ["for_gcm": ["notification": ["body": "a"]]]
        #expect(members(shown, .v1, .v1) == ["for_gcm", "other-version for_gcm.notification"])
        let long: JSONObject = ["for_apns": ["message": .string(String(repeating: "가", count: 80))]]
        #expect(members(long, .v1, .v1) == ["for_apns", "too-large for_apns"])
        #expect(members(long, .v2, .v2) == ["for_apns"])
    }

    @Test("A message with its own token needs one for each platform")
    func tokens() {
        let message: JSONObject = [
            "for_apns": ["message": "a", "push_token": "t"], "for_fcm": ["custom_field": ["text": "a"]],
        ]
        #expect(Self.codes(Self.preview(message) { $0.bypass = true }) == ["token-missing for_fcm"])
    }

    @Test("Whatever a message contains, its warnings are few and can be stored")
    func bounds() {
        var message = JSONObject()
        for number in 1...1000 { message["\u{0}\u{1B}\(String(repeating: "x", count: 1000))\(number)"] = 1 }
        let preview = Self.preview(message)
        #expect(preview.warnings.count == 6)
        #expect(preview.warnings.json.count < 2000)
        #expect(!preview.warnings.contains { $0.message.unicodeScalars.contains("\u{0}") })
        #expect(preview.warnings.headerValue == "no-phone, unknown-member")
        #expect([PushWarning]().headerValue.isEmpty)
    }

    // MARK: Advertising

    @Test(
        "Advertising begins with its mark on each platform: in the title, or in the text if there is no title",
        arguments: [
            (["for_apns": ["message": "(광고) Sale"]], nil),
            (["for_apns": ["message": ["title": "(광고) Shop", "body": "Sale"]]], nil),
            (["for_apns": ["message": ["title": " ", "body": "(광고) Sale"]]], nil),
            (["for_fcm": ["notification": ["title": "(광고) Shop", "body": "Sale"]]], nil),
            (["for_fcm": ["notification": ["body": "(광고) Sale"]]], nil),
            // Decomposed letters look the same.
            (["for_apns": ["message": "(\u{1100}\u{116A}\u{11BC}\u{1100}\u{1169}) Sale"]], nil),
            (
                ["for_apns": ["message": ["title": "Shop", "body": "(광고) Sale"]]],
                .unmarked(path: "for_apns.message.title")
            ),
            (
                ["for_apns": ["message": ["subtitle": "Shop", "body": "(광고) Sale"]]],
                .unmarked(path: "for_apns.message.subtitle")
            ),
            (["for_apns": ["message": "Sale (광고)"]], .unmarked(path: "for_apns.message")),
            (["for_apns": ["message": " (광고) Sale"]], .unmarked(path: "for_apns.message")),
            (["for_apns": ["message": "(광고)\u{301}"]], .unmarked(path: "for_apns.message")),
            (
                ["for_fcm": ["notification": ["title": "Shop", "body": "(광고)"], "custom_field": ["title": "(광고)"]]],
                .unmarked(path: "for_fcm.notification.title")
            ),
            (["for_apns": ["message": ["loc-key": "(광고)"]]], .localized(path: "for_apns.message.loc-key")),
            (
                ["for_apns": ["message": ["title-loc-key": "T", "body": "(광고) Sale"]]],
                .localized(path: "for_apns.message.title-loc-key")
            ),
            (["for_fcm": ["custom_field": ["title": "(광고) Shop"]]], .invisible(member: "for_fcm")),
            (["for_fcm": ["collapse": "(광고)"]], .invisible(member: "for_fcm")),
            (["for_apns": ["custom_field": ["a": "(광고)"]]], .invisible(member: "for_apns")),
            (
                ["for_fcm": ["notification": ["body": "(광고) Sale"]], "for_apns": ["message": "Sale"]],
                .unmarked(path: "for_apns.message")
            ),
            // Both are passed on.
            (
                ["for_gcm": ["notification": ["body": "Sale"]], "for_fcm": ["notification": ["body": "(광고) Sale"]]],
                .unmarked(path: "for_gcm.notification.body")
            ),
        ] as [(JSONObject, MarkFault?)]
    )
    func mark(message: JSONObject, fault: MarkFault?) {
        let preview = Self.preview(message) { $0.kind = .advertising }
        #expect(preview.markFault == fault)
        #expect(preview.allWarnings.contains { $0.code == .markMissing } == (fault != nil))
        #expect(Self.preview(message).markFault == nil)
        if fault == nil { #expect(preview.phones.map(\.isMarkedAsAdvertising) == preview.phones.map { _ in true }) }
    }

    @Test("The setting names the text that must have the mark, where the system shows nothing")
    func markOfApps() {
        func fault(_ message: JSONObject, _ path: String = "alert.title") -> MarkFault? {
            Self.preview(message) {
                $0.kind = .advertising
                $0.advertisingText = MemberPath(path)
            }.markFault
        }
        let (marked, unmarked): (JSONValue, JSONValue) = (["alert": ["title": "(광고) a"]], ["alert": ["title": "a"]])
        #expect(fault(["for_fcm": ["custom_field": marked]]) == nil)
        #expect(fault(["for_fcm": ["custom_field": unmarked]]) == .unmarked(path: "for_fcm.custom_field.alert.title"))
        #expect(fault(["for_fcm": ["custom_field": marked]], "title") == .invisible(member: "for_fcm"))
        #expect(fault(["for_apns": ["content-available": 1, "custom_field": marked]]) == nil)
        // What the system shows counts.
        #expect(fault(["for_fcm": ["notification": ["body": "(광고) a"], "custom_field": unmarked]]) == nil)
        let hidden: JSONObject = ["for_fcm": ["notification": ["body": "a"], "custom_field": marked]]
        #expect(fault(hidden) == .unmarked(path: "for_fcm.notification.body"))
    }
}
