/// The settings of a YAML file, each with its line.
///
/// Anything that is not a setting is rejected at its start, so the depth of recursion is bounded by the deepest
/// section.
package struct SettingsFile {
    struct Entry {
        let value: String
        let line: Int
    }

    let path: String
    private let names: SettingNames
    private(set) var entries: [String: Entry] = [:]

    /// The names of the settings and sections read so far.
    private var given: Set<String> = []

    /// Parses a settings file.
    ///
    /// - Parameters:
    ///   - yaml: The file's text.
    ///   - path: The file's path, for error messages.
    ///   - names: The names of all settings.
    /// - Throws: ``SettingsError`` with the line of invalid YAML, of an unknown setting, or of a value that is not a
    ///   scalar.
    package init(yaml: String, path: String, names: SettingNames) throws {
        self.path = path
        self.names = names
        do {
            var parser = try YAMLParser(yaml)
            try read(&parser)
        } catch let failure as YAMLParser.Failure {
            throw error(failure.line, "Invalid YAML: \(failure.problem).")
        }
    }

    /// Returns the place of a line, such as `config/push-server.yaml:7`.
    func place(line: Int) -> String { "\(path):\(line)" }

    private mutating func read(_ parser: inout YAMLParser) throws {
        // A text that consists of comments has no document.
        guard case .documentStart = try parser.next().content else { return }
        let root = try parser.next()
        switch root.content {
        case .mappingStart: try readMapping(under: nil, from: &parser)
        // A document that consists of comments is an empty value.
        case .scalar(""): break
        case .scalar, .sequenceStart, .alias, .documentStart, .mappingEnd, .sequenceEnd, .end:
            throw error(root.line, "The file must be a mapping of settings.")
        }
        let rest = try parser.next()
        guard case .end = rest.content else { throw error(rest.line, "The file must be a single document.") }
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
                    throw error(key.line, "Unknown setting \(name).")
                }
            case .mappingEnd: return
            case .alias, .mappingStart, .sequenceStart, .sequenceEnd, .documentStart, .end:
                throw error(key.line, "The name of a setting must be text.")
            }
        }
    }

    private mutating func readSetting(_ name: String, line: Int, from parser: inout YAMLParser) throws {
        try recordName(name, line: line)
        switch try parser.next().content {
        case .scalar(let text):
            // An environment variable cannot contain a NUL either, and C would end the value there.
            guard !text.utf8.contains(0) else { throw error(line, "\(name) must not contain a NUL.") }
            if !text.isEmpty { entries[name] = Entry(value: text, line: line) }
        case .alias: throw error(line, "\(name) must be written out: YAML aliases are not supported.")
        case .mappingStart, .mappingEnd, .sequenceStart, .sequenceEnd, .documentStart, .end:
            throw error(line, "\(name) must be a single value.")
        }
    }

    private mutating func readSection(_ name: String, line: Int, from parser: inout YAMLParser) throws {
        try recordName(name, line: line)
        let value = try parser.next()
        switch value.content {
        case .mappingStart: try readMapping(under: name, from: &parser)
        // A section whose settings are all commented out is an empty value.
        case .scalar(""): break
        case .alias: throw error(line, "\(name) must be written out: YAML aliases are not supported.")
        case .scalar, .sequenceStart, .mappingEnd, .sequenceEnd, .documentStart, .end:
            throw error(value.line, "\(name) must be a mapping of settings.")
        }
    }

    /// Records a name. `http.port` may be under `http` or a key of its own, but is allowed only once.
    private mutating func recordName(_ name: String, line: Int) throws {
        guard given.insert(name).inserted else { throw error(line, "\(name) is given twice.") }
    }

    private func error(_ line: Int, _ message: String) -> SettingsError {
        SettingsError(place: place(line: line), message: message)
    }
}

/// The names that a settings file may contain.
package struct SettingNames: Sendable {
    /// Whether each setting is a secret, by its name.
    private let settings: [String: Bool]
    /// The names of all sections, such as `http`, `http.tls` and `database`.
    let sections: Set<String>

    package init<Group>(_ settings: [Setting<Group>]) {
        self.settings = Dictionary(uniqueKeysWithValues: settings.map { ($0.name, $0.isSecret) })
        sections = Set(
            settings.flatMap { setting in
                let parts = setting.name.split(separator: ".").dropLast()
                return parts.indices.map { parts[...$0].joined(separator: ".") }
            }
        )
    }

    /// Returns whether `name` is the name of a setting, or of the file that contains a secret.
    func contains(_ name: String) -> Bool {
        settings[name] != nil || name.hasSuffix("_file") && settings[String(name.dropLast(5))] == true
    }
}
