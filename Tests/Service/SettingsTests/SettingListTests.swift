import Crypto
import Settings
import Testing

private struct MailSettings: SettingsGroup {
    struct Receiver: Sendable, Equatable {
        let name: String
        let key: Secret
        let port: Int
    }

    var receivers: [Receiver] = []

    static let settings: [Setting<MailSettings>] = [
        Setting("mail.receivers", \.receivers, listOf: .receiver, "the receivers of mail")
    ]
}

extension SettingMapping where Value == MailSettings.Receiver {
    fileprivate static let receiver = SettingMapping([
        SettingMember("name", example: "first"), SettingMember("key", isSecret: true, example: "/run/secrets/key"),
        SettingMember("port"),
    ]) { reader in
        MailSettings.Receiver(
            name: try reader.required("name", .text),
            key: try reader.required("key", .secret(atLeast: 4)),
            port: try reader.value("port", .port) ?? 25
        )
    }
}

/// Tests of settings whose value is a list of mappings.
@Suite struct SettingListTests {
    private struct NoSuchFile: Error {}

    private static let first = MailSettings.Receiver(name: "first", key: Secret("key-1"), port: 25)
    private static let second = MailSettings.Receiver(name: "second", key: Secret("key-2"), port: 26)

    private static func read(
        _ environment: [String: String] = [:],
        yaml: String? = nil,
        files: [String: String] = [:]
    ) throws -> (receivers: [MailSettings.Receiver], secretFiles: [String]) {
        let names = SettingNames(MailSettings.settings)
        let file = try yaml.map { try SettingsFile(yaml: $0, path: "settings.yaml", names: names) }
        let reader = SettingsReader(environment: environment, file: file) { path in
            guard let text = files[path] else { throw NoSuchFile() }
            return text
        }
        var settings = MailSettings()
        var secretFiles: [String] = []
        for setting in MailSettings.settings {
            try setting.read(reader, &settings)
            secretFiles += try reader.secretFiles(of: setting)
        }
        return (settings.receivers, secretFiles)
    }

    @Test(
        "A list is a sequence of mappings in the file",
        arguments: [
            "mail:\n  receivers:\n    - name: first\n      key: key-1\n    - {name: second, key: key-2, port: 26}\n",
            "mail.receivers:\n- key: key-1\n  name: first\n-\n  name: second\n  port: '26'\n  key: key-2\n",
            #"mail: {receivers: [{"name": "first", "key": "key-1"}, {"name": "second", "key": "key-2", "port": 26}]}"#,
        ]
    )
    func sequence(yaml: String) throws {
        let read = try Self.read(yaml: yaml)
        #expect(read.receivers == [Self.first, Self.second])
        #expect(read.secretFiles == ["settings.yaml", "settings.yaml"])
    }

    @Test("A list is JSON in the environment, and overrides that of the file as a whole")
    func json() throws {
        let yaml = "mail:\n  receivers:\n    - name: first\n      key: key-1\n"
        let json = #"[{"name":"second","key":"key-2","port":26}]"#
        let read = try Self.read(["MAIL_RECEIVERS": json], yaml: yaml)
        #expect(read.receivers == [Self.second])
        #expect(read.secretFiles == [])
        #expect(try Self.read(["MAIL_RECEIVERS": "[]"], yaml: yaml).receivers == [])
        #expect(try Self.read(["MAIL_RECEIVERS": ""], yaml: yaml).receivers == [Self.first])
        for yaml in [nil, "mail:\n  receivers:\n", "mail:\n  receivers: []\n"] as [String?] {
            #expect(try Self.read(yaml: yaml).receivers == [])
        }
    }

    @Test("A member that is a secret may come from a file")
    func secretFiles() throws {
        let files = ["/run/1": "key-1\n", "/run/2": "key-2"]
        let yaml = "mail:\n  receivers:\n    - name: first\n      key_file: /run/1\n"
        let read = try Self.read(yaml: yaml, files: files)
        #expect(read.receivers == [Self.first])
        #expect(read.secretFiles == ["/run/1"])
        let json = #"[{"name":"second","key_file":"/run/2","port":26},{"name":"first","key":"key-1"}]"#
        let other = try Self.read(["MAIL_RECEIVERS": json], yaml: yaml, files: files)
        #expect(other.receivers == [Self.second, Self.first])
        #expect(other.secretFiles == ["/run/2"])
        let error = #expect(throws: SettingsError.self) { try Self.read(yaml: yaml) }
        #expect(error?.place == "settings.yaml:4")
        #expect(error?.message == "The file /run/1 for mail.receivers[0].key cannot be read.")
    }

    @Test(
        "An error names the line and the member, and never quotes a value",
        arguments: [
            ("mail:\n  receivers:\n    - name: first\n      key: 'k 3'\n", 4, "mail.receivers[0].key must"),
            ("mail:\n  receivers:\n    - name: a\n      key: key-3\n      port: x\n", 5, "mail.receivers[0].port must"),
            (
                "mail:\n  receivers:\n    - {name: a, key: key-3}\n    - name: first\n", 4,
                "mail.receivers[1].key is required"
            ),
            ("mail:\n  receivers:\n    - name: a\n      prot: 1\n", 4, "Unknown setting mail.receivers[0].prot"),
            ("mail:\n  receivers:\n    - name_file: /a\n", 3, "Unknown setting mail.receivers[0].name_file"),
            ("mail:\n  receivers:\n    - name: a\n      name: b\n", 4, "mail.receivers[0].name is given twice"),
            ("mail:\n  receivers:\n    - name: [a]\n", 3, "mail.receivers[0].name must be a single value"),
            ("mail:\n  receivers:\n    - &a {name: a}\n    - *a\n", 4, "mail.receivers[1] must be written out"),
            ("mail:\n  receivers:\n    - key-3\n", 3, "mail.receivers[0] must be a mapping"),
            ("mail:\n  receivers: key-3\n", 2, "mail.receivers must be a list of mappings"),
            ("mail:\n  receivers: {name: a}\n", 2, "mail.receivers must be a list of mappings"),
            ("mail:\n  receivers:\n    - [[[[{{{{\n", 3, "mail.receivers[0] must be a mapping"),
            ("mail:\n  receivers: []\n  receivers: []\n", 3, "mail.receivers is given twice"),
        ]
    )
    func errorsInFile(yaml: String, line: Int, message: String) throws {
        let thrown = #expect(throws: SettingsError.self) { try Self.read(yaml: yaml) }
        let error = try #require(thrown)
        #expect(error.place == "settings.yaml:\(line)")
        #expect(error.message.hasPrefix(message), "\(error)")
        #expect(!error.description.contains("key-3") && !error.description.contains("k 3"))
    }

    @Test(
        "An error names the variable and the member",
        arguments: [
            (#"[{"name":"a","key":"key-3"},{"name":"b"}]"#, "mail.receivers[1].key is required"),
            (#"[{"name":"a","key":"key-3","port":"x"}]"#, "mail.receivers[0].port must"),
            (#"[{"nam":"a"}]"#, "Unknown setting mail.receivers[0].nam"),
            (#"{"name":"a"}"#, "mail.receivers must be a list of mappings"), ("key-3", "mail.receivers must be a list"),
            (#"[{"name":"a"}"#, "Invalid YAML"), ("[]\n---\n[]", "The text must be a single document"),
            (#"[{"name":"a\u0000"}]"#, "mail.receivers[0].name must not contain a NUL"),
        ]
    )
    func errorsInEnvironment(json: String, message: String) throws {
        let thrown = #expect(throws: SettingsError.self) { try Self.read(["MAIL_RECEIVERS": json]) }
        let error = try #require(thrown)
        #expect(error.place == "MAIL_RECEIVERS in the environment")
        #expect(error.message.hasPrefix(message), "\(error)")
        #expect(!error.description.contains("key-3"))
    }

    @Test("The documents name the members, and show an example that can be read")
    func documents() throws {
        let setting = try #require(MailSettings.settings.first)
        #expect(setting.allowed == "a list of mappings with `name`, `key`, `port`; JSON in the environment")
        #expect(setting.defaultText == "none" && setting.isList && !setting.isSecret)
        #expect(setting.example == #"[{"name":"first","key_file":"/run/secrets/key"}]"#)
        let read = try Self.read(["MAIL_RECEIVERS": setting.example], files: ["/run/secrets/key": "key-1"])
        #expect(read.receivers == [Self.first])
    }
}
