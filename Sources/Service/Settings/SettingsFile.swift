/// The settings of a YAML text, each with its line: those of a file, or those of a mapping in a list.
///
/// Anything that is not a setting is rejected at its start, so the depth of recursion is bounded by the deepest
/// section.
package struct SettingsFile {
    /// A setting that is given.
    struct Entry {
        enum Value {
            case scalar(String)
            case list([SettingsFile])
        }

        let value: Value
        let line: Int

        /// The text of a scalar.
        var text: String? {
            switch value {
            case .scalar(let text): text
            case .list: nil
            }
        }
    }

    /// The origin of the text.
    enum Source {
        /// The path of a file.
        case file(String)
        /// The name of an environment variable.
        case variable(String)
    }

    let source: Source
    /// The start of the names of settings: `webhooks.endpoints[0].` of a mapping in a list.
    let prefix: String
    /// The line at which the mapping begins.
    let line: Int
    private let names: SettingNames
    private(set) var entries: [String: Entry] = [:]

    /// The names of the settings and sections read so far, with their lines.
    private var given: [String: Int] = [:]

    private init(_ source: Source, prefix: String = "", line: Int = 1, _ names: SettingNames) {
        self.source = source
        self.prefix = prefix
        self.line = line
        self.names = names
    }

    /// Parses a settings file.
    ///
    /// - Parameters:
    ///   - yaml: The file's text.
    ///   - path: The file's path, for error messages.
    ///   - names: The names of all settings.
    /// - Throws: ``SettingsError`` with the line of invalid YAML, of an unknown setting, or of a value of the wrong
    ///   form.
    package init(yaml: String, path: String, names: SettingNames) throws {
        self.init(.file(path), names)
        try readDocument(yaml) { file, root, parser in
            switch root.content {
            case .mappingStart: try file.readMapping(under: nil, from: &parser)
            // A document that consists of comments is an empty value.
            case .scalar(""): break
            case .scalar, .sequenceStart, .alias, .documentStart, .mappingEnd, .sequenceEnd, .end:
                throw file.error(root.line, "The file must be a mapping of settings.")
            }
        }
    }

    /// Parses the value of an environment variable that is a list of mappings. JSON is YAML, too.
    ///
    /// - Parameters:
    ///   - name: The name of the setting.
    ///   - members: The names that a mapping may contain.
    /// - Throws: ``SettingsError`` with the name of the variable.
    static func list(
        _ name: String,
        of members: SettingNames,
        json: String,
        variable: String
    ) throws -> [SettingsFile] {
        var list: [SettingsFile] = []
        var variable = SettingsFile(.variable(variable), members)
        try variable.readDocument(json) { variable, root, parser in
            guard case .sequenceStart = root.content else {
                throw variable.error(root.line, "\(name) \(listProblem)")
            }
            list = try variable.readList(name, of: members, from: &parser)
        }
        return list
    }

    private static let listProblem = "must be a list of mappings."

    /// The path of the file; `nil` if the text is that of a variable.
    var path: String? {
        switch source {
        case .file(let path): path
        case .variable: nil
        }
    }

    /// Returns the place of a line, such as `config/push-server.yaml:7`.
    func place(line: Int) -> String {
        switch source {
        case .file(let path): "\(path):\(line)"
        case .variable(let name): "\(name) in the environment"
        }
    }

    /// Reads a text of one document.
    ///
    /// - Parameter readRoot: Reads the root of the document, whose first event it gets.
    private mutating func readDocument(
        _ yaml: String,
        _ readRoot: (inout SettingsFile, YAMLParser.Event, inout YAMLParser) throws -> Void
    ) throws {
        do {
            var parser = try YAMLParser(yaml)
            // A text that consists of comments has no document.
            guard case .documentStart = try parser.next().content else { return }
            let root = try parser.next()
            try readRoot(&self, root, &parser)
            let rest = try parser.next()
            guard case .end = rest.content else { throw error(rest.line, "The text must be a single document.") }
        } catch let failure as YAMLParser.Failure {
            throw error(failure.line, "Invalid YAML: \(failure.problem).")
        }
    }

    /// Reads the contents of a mapping up to its end.
    private mutating func readMapping(under section: String?, from parser: inout YAMLParser) throws {
        while true {
            let key = try parser.next()
            switch key.content {
            case .scalar(let text):
                let name = section.map { "\($0).\(text)" } ?? text
                if names.contains(name) {
                    try readSetting(name, line: key.line, from: &parser)
                } else if names.sections.contains(name) {
                    try readSection(name, line: key.line, from: &parser)
                } else {
                    throw error(key.line, "Unknown setting \(prefix)\(name).")
                }
            case .mappingEnd: return
            case .alias, .mappingStart, .sequenceStart, .sequenceEnd, .documentStart, .end:
                throw error(key.line, "The name of a setting must be text.")
            }
        }
    }

    private mutating func readSetting(_ name: String, line: Int, from parser: inout YAMLParser) throws {
        try recordName(name, line: line)
        let members = names.members(of: name)
        switch try parser.next().content {
        case .scalar(let text):
            // An environment variable cannot contain a NUL either, and C would end the value there.
            guard !text.utf8.contains(0) else { throw error(line, "\(prefix)\(name) must not contain a NUL.") }
            guard !text.isEmpty else { return }
            guard members == nil else { throw error(line, "\(prefix)\(name) \(Self.listProblem)") }
            entries[name] = Entry(value: .scalar(text), line: line)
        case .sequenceStart:
            guard let members else { throw error(line, "\(prefix)\(name) must be a single value.") }
            entries[name] = Entry(value: .list(try readList(name, of: members, from: &parser)), line: line)
        case .alias: throw aliasError(name, line: line)
        case .mappingStart, .mappingEnd, .sequenceEnd, .documentStart, .end:
            throw error(line, "\(prefix)\(name) \(members == nil ? "must be a single value." : Self.listProblem)")
        }
    }

    /// Reads the mappings of a list up to its end.
    private func readList(
        _ name: String,
        of members: SettingNames,
        from parser: inout YAMLParser
    ) throws -> [SettingsFile] {
        var list: [SettingsFile] = []
        while true {
            let start = try parser.next()
            switch start.content {
            case .mappingStart:
                var mapping = SettingsFile(source, prefix: "\(name)[\(list.count)].", line: start.line, members)
                try mapping.readMapping(under: nil, from: &parser)
                list.append(mapping)
            case .sequenceEnd: return list
            case .alias: throw aliasError("\(name)[\(list.count)]", line: start.line)
            case .scalar, .sequenceStart, .mappingEnd, .documentStart, .end:
                throw error(start.line, "\(name)[\(list.count)] must be a mapping.")
            }
        }
    }

    private mutating func readSection(_ name: String, line: Int, from parser: inout YAMLParser) throws {
        try recordName(name, line: line)
        let value = try parser.next()
        switch value.content {
        case .mappingStart: try readMapping(under: name, from: &parser)
        // A section whose settings are all commented out is an empty value.
        case .scalar(""): break
        case .alias: throw aliasError(name, line: line)
        case .scalar, .sequenceStart, .mappingEnd, .sequenceEnd, .documentStart, .end:
            throw error(value.line, "\(prefix)\(name) must be a mapping of settings.")
        }
    }

    /// Records a name. `http.port` may be under `http` or a key of its own, but is allowed only once.
    private mutating func recordName(_ name: String, line: Int) throws {
        if let first = given.updateValue(line, forKey: name) {
            throw error(line, "\(prefix)\(name) is given twice: first in line \(first). Give it once.")
        }
    }

    private func aliasError(_ name: String, line: Int) -> SettingsError {
        error(line, "\(prefix)\(name) must be written out: YAML aliases are not supported.")
    }

    private func error(_ line: Int, _ message: String) -> SettingsError {
        SettingsError(place: place(line: line), message: message)
    }
}

/// The names that a settings file, or a mapping in a list, may contain.
package struct SettingNames: Sendable {
    /// Whether each setting is a secret, by its name.
    private let settings: [String: Bool]
    /// The names in the mappings of each setting that is a list.
    private let lists: [String: SettingNames]
    /// The names of all sections, such as `http`, `http.tls` and `database`.
    let sections: Set<String>

    package init<Group>(_ settings: [Setting<Group>]) {
        self.settings = Dictionary(uniqueKeysWithValues: settings.map { ($0.name, $0.isSecret) })
        lists = Dictionary(
            uniqueKeysWithValues: settings.filter(\.isList).map { ($0.name, SettingNames($0.members)) }
        )
        sections = Set(
            settings.flatMap { setting in
                let parts = setting.name.split(separator: ".").dropLast()
                return parts.indices.map { parts[...$0].joined(separator: ".") }
            }
        )
    }

    init(_ members: [SettingMember]) {
        settings = Dictionary(uniqueKeysWithValues: members.map { ($0.name, $0.isSecret) })
        lists = [:]
        sections = []
    }

    /// Returns whether `name` is the name of a setting, or of the file that contains a secret.
    func contains(_ name: String) -> Bool {
        settings[name] != nil || name.hasSuffix("_file") && settings[String(name.dropLast(5))] == true
    }

    /// Returns the names in the mappings of a list; `nil` if the setting is a single value.
    func members(of name: String) -> SettingNames? { lists[name] }
}
