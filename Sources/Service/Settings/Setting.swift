package import Crypto

/// A setting, declared once: the reader, the table of `docs/settings.md`, `config/push-server.yaml` and `.env.example`
/// follow from the declaration. `Settings.all` lists all settings.
///
/// The environment overrides the file: `http.port` is `HTTP_PORT`. A secret may also come from a file, named by
/// `OPERATOR_KEY_FILE` or `operator.key_file`.
package struct Setting<Group: SettingsGroup>: Sendable {
    /// The name in `config/push-server.yaml`: `http.port`.
    package let name: String
    /// Whether the setting is never printed and may come from a file.
    package let isSecret: Bool
    package let isRequired: Bool
    /// The allowed values, in words: `0 to 65535`.
    package let allowed: String
    /// The default in words: `8080`, `1 MiB`, `none`.
    package let defaultText: String
    /// The value that the commented files show: the default, or an example.
    package let example: String
    /// The purpose of the setting, in Markdown, without a full stop.
    package let description: String
    /// Whether a reload applies a changed value. Otherwise it takes effect after a restart.
    package let isReloadable: Bool
    /// The members of each mapping of a list; empty of a single value.
    package let members: [SettingMember]
    /// Reads the value, if it is given.
    package let read: @Sendable (SettingsReader, inout Group) throws -> Void
    /// Returns whether two groups have different values.
    package let differs: @Sendable (Group, Group) -> Bool
    /// Copies the value of the first group to the second one.
    package let copy: @Sendable (Group, inout Group) -> Void

    /// The first part of the name: `http`.
    package var section: Substring { name.prefix { $0 != "." } }

    /// The name of the environment variable, such as `HTTP_PORT` for `http.port`.
    package var environmentName: String { SettingsReader.environmentName(name) }

    /// Whether the value is a list of mappings. In the environment it is JSON.
    package var isList: Bool { !members.isEmpty }
}

extension Setting {
    /// A setting with a default, which is the value that ``Settings`` begins with.
    package init<Value: Sendable & Equatable>(
        _ name: String,
        _ path: any WritableKeyPath<Group, Value> & Sendable,
        _ kind: SettingKind<Value>,
        example: String? = nil,
        reloadable isReloadable: Bool = false,
        _ description: String
    ) {
        let value = Group()[keyPath: path]
        self.init(
            name,
            path,
            kind,
            defaultText: kind.shown(value),
            example: example ?? kind.text(value),
            isReloadable,
            description
        ) { try $0.value(name, kind) }
    }

    /// A setting that may be absent.
    ///
    /// - Parameter defaultText: What its absence means, if it is more than `none`.
    package init<Value: Sendable & Equatable>(
        _ name: String,
        _ path: any WritableKeyPath<Group, Value?> & Sendable,
        optional kind: SettingKind<Value>,
        default defaultText: String = "none",
        example: String = "",
        reloadable isReloadable: Bool = false,
        _ description: String
    ) {
        self.init(name, path, kind, defaultText: defaultText, example: example, isReloadable, description) {
            try $0.value(name, kind).map { .some($0) }
        }
    }

    /// A secret that every server needs.
    package static func required(
        _ name: String,
        _ path: any WritableKeyPath<Group, Secret> & Sendable,
        _ kind: SettingKind<Secret>,
        example: String,
        reloadable isReloadable: Bool = false,
        _ description: String
    ) -> Setting {
        Setting(
            name,
            path,
            kind,
            isRequired: true,
            defaultText: "required",
            example: example,
            isReloadable,
            description
        ) { try $0.required(name, kind) }
    }

    /// A setting whose value is a list of mappings, none by default.
    ///
    /// - Parameter kind: The kind of a mapping.
    package init<Value: Sendable & Equatable>(
        _ name: String,
        _ path: any WritableKeyPath<Group, [Value]> & Sendable,
        listOf kind: SettingMapping<Value>,
        reloadable isReloadable: Bool = false,
        _ description: String
    ) {
        let names = kind.members.map { "`\($0.name)`" }.joined(separator: ", ")
        let example = kind.members.filter { !$0.example.isEmpty }.map { "\"\($0.exampleName)\":\"\($0.example)\"" }
        self.init(
            name: name,
            isSecret: false,
            isRequired: false,
            allowed: "a list of mappings with \(names); JSON in the environment",
            defaultText: "none",
            example: "[{\(example.joined(separator: ","))}]",
            description: description,
            isReloadable: isReloadable,
            members: kind.members,
            read: { reader, settings in
                guard let mappings = try reader.mappings(name, kind.members) else { return }
                settings[keyPath: path] = try mappings.map(kind.read)
            },
            differs: { $0[keyPath: path] != $1[keyPath: path] },
            copy: { $1[keyPath: path] = $0[keyPath: path] }
        )
    }

    /// Returns this setting as one of the group that contains its group.
    package func of<Root>(_ path: any WritableKeyPath<Root, Group> & Sendable) -> Setting<Root> {
        Setting<Root>(
            name: name,
            isSecret: isSecret,
            isRequired: isRequired,
            allowed: allowed,
            defaultText: defaultText,
            example: example,
            description: description,
            isReloadable: isReloadable,
            members: members,
            read: { reader, root in try read(reader, &root[keyPath: path]) },
            differs: { differs($0[keyPath: path], $1[keyPath: path]) },
            copy: { copy($0[keyPath: path], &$1[keyPath: path]) }
        )
    }

    /// - Parameter read: Returns the value, or `nil` if it is not given.
    private init<Value: Sendable & Equatable, Given>(
        _ name: String,
        _ path: any WritableKeyPath<Group, Value> & Sendable,
        _ kind: SettingKind<Given>,
        isRequired: Bool = false,
        defaultText: String,
        example: String,
        _ isReloadable: Bool,
        _ description: String,
        read: @escaping @Sendable (SettingsReader) throws -> Value?
    ) {
        self.init(
            name: name,
            isSecret: kind.isSecret,
            isRequired: isRequired,
            allowed: kind.allowed,
            defaultText: defaultText,
            example: example,
            description: description,
            isReloadable: isReloadable,
            members: [],
            read: { reader, settings in
                if let value = try read(reader) { settings[keyPath: path] = value }
            },
            differs: { $0[keyPath: path] != $1[keyPath: path] },
            copy: { $1[keyPath: path] = $0[keyPath: path] }
        )
    }
}

/// Settings that belong together, usually those of one feature: the values, and the declarations beside them.
package protocol SettingsGroup: Sendable {
    static var settings: [Setting<Self>] { get }

    /// The defaults.
    init()

    /// Checks the rules between settings, and sets the defaults that depend on others.
    ///
    /// - Parameter kakao: The settings of the app at Kakao.
    /// - Throws: ``SettingsError``.
    mutating func validate(_ reader: SettingsReader, _ kakao: KakaoSettings) throws
}

extension SettingsGroup {
    package mutating func validate(_ reader: SettingsReader, _ kakao: KakaoSettings) throws {}
}

/// A kind of mapping, of which a setting has a list: its members, and how a value is read from them.
package struct SettingMapping<Value: Sendable>: Sendable {
    let members: [SettingMember]
    let read: @Sendable (SettingsReader) throws -> Value

    /// - Parameters:
    ///   - members: All members, in the order of the documents.
    ///   - read: Reads them by their names. An error names the mapping, too.
    package init(_ members: [SettingMember], read: @escaping @Sendable (SettingsReader) throws -> Value) {
        self.members = members
        self.read = read
    }
}

/// A member of a mapping.
package struct SettingMember: Sendable {
    let name: String
    /// Whether it is never printed and may come from a file.
    let isSecret: Bool
    /// An example for the commented files; empty for none. That of a secret is the path of its file.
    package let example: String

    package init(_ name: String, isSecret: Bool = false, example: String = "") {
        self.name = name
        self.isSecret = isSecret
        self.example = example
    }

    /// The name of the member that has the example.
    package var exampleName: String { isSecret ? "\(name)_file" : name }
}

/// A kind of setting: how its text is read, and how a value is shown.
package struct SettingKind<Value: Sendable>: Sendable {
    /// The allowed values, in words: `0 to 65535`.
    package let allowed: String
    package let isSecret: Bool
    /// The problem of an invalid text, in words that follow the name of the setting.
    package let problem: String
    package let parse: @Sendable (String) -> Value?
    /// The text of a value.
    package let text: @Sendable (Value) -> String
    /// The text of a value for people: `1 MiB`.
    package let shown: @Sendable (Value) -> String

    package init(
        _ allowed: String,
        isSecret: Bool = false,
        problem: String,
        parse: @escaping @Sendable (String) -> Value?,
        text: @escaping @Sendable (Value) -> String,
        shown: (@Sendable (Value) -> String)? = nil
    ) {
        self.allowed = allowed
        self.isSecret = isSecret
        self.problem = problem
        self.parse = parse
        self.text = text
        self.shown = shown ?? { "`\(text($0))`" }
    }
}
