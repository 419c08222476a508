/// The settings that a YAML file gives, each with the line it stands on.
///
/// What is no setting is refused where it begins and never read through, so the deepest section bounds how deep reading goes.
struct SettingsFile {
    struct Entry {
        let value: String
        let line: Int
    }

    private let path: String
    private(set) var entries: [String: Entry] = [:]

    /// Names of settings and sections that have been given.
    private var given: Set<String> = []

    /// - Parameters:
    ///   - yaml: The file's text.
    ///   - path: The file's name, for messages.
    /// - Throws: ``SettingsError`` that names the line of a mistake, of an unknown setting, or of a value that is no single one.
    init(yaml: String, path: String) throws {
        self.path = path
        do {
            var parser = try YAMLParser(yaml)
            try read(&parser)
        } catch let failure as YAMLParser.Failure {
            throw error(failure.line, "This is not YAML: \(failure.problem).")
        }
    }

    /// `config/push-server.yaml:7`.
    func place(line: Int) -> String { "\(path):\(line)" }

    private mutating func read(_ parser: inout YAMLParser) throws {
        // A text of nothing but comments has no document.
        guard case .documentStart = try parser.next().content else { return }
        let root = try parser.next()
        switch root.content {
        case .mappingStart: try readMapping(under: nil, from: &parser)
        // A document of nothing but comments is an empty value.
        case .scalar(""): break
        case .scalar, .sequenceStart, .alias, .documentStart, .mappingEnd, .sequenceEnd, .end:
            throw error(root.line, "The file must be a mapping of settings.")
        }
        let rest = try parser.next()
        guard case .end = rest.content else { throw error(rest.line, "The file must be a single document.") }
    }

    /// Reads what a mapping holds, up to its end.
    private mutating func readMapping(under section: String?, from parser: inout YAMLParser) throws {
        while true {
            let key = try parser.next()
            switch key.content {
            case .scalar(let text):
                let name = section.map { "\($0).\(text)" } ?? text
                if Self.isSetting(name) {
                    try readSetting(name, line: key.line, from: &parser)
                } else if Self.sections.contains(name) {
                    try readSection(name, line: key.line, from: &parser)
                } else {
                    throw error(key.line, "There is no setting \(name).")
                }
            case .mappingEnd: return
            case .alias, .mappingStart, .sequenceStart, .sequenceEnd, .documentStart, .end:
                throw error(key.line, "The name of a setting must be text.")
            }
        }
    }

    private mutating func readSetting(_ name: String, line: Int, from parser: inout YAMLParser) throws {
        try note(name, line: line)
        switch try parser.next().content {
        case .scalar(let text):
            // The environment cannot hold one either; C would take it for the value's end.
            guard !text.utf8.contains(0) else { throw error(line, "\(name) must not hold a NUL.") }
            if !text.isEmpty { entries[name] = Entry(value: text, line: line) }
        case .alias: throw error(line, "\(name) must be written out: aliases are not followed.")
        case .mappingStart, .mappingEnd, .sequenceStart, .sequenceEnd, .documentStart, .end:
            throw error(line, "\(name) must be a single value.")
        }
    }

    private mutating func readSection(_ name: String, line: Int, from parser: inout YAMLParser) throws {
        try note(name, line: line)
        let value = try parser.next()
        switch value.content {
        case .mappingStart: try readMapping(under: name, from: &parser)
        // A section whose settings are all commented out reads as an empty value.
        case .scalar(""): break
        case .alias: throw error(line, "\(name) must be written out: aliases are not followed.")
        case .scalar, .sequenceStart, .mappingEnd, .sequenceEnd, .documentStart, .end:
            throw error(value.line, "\(name) must be a mapping of settings.")
        }
    }

    /// Takes down that a name was given. `http.port` may stand under `http` or by itself, but once.
    private mutating func note(_ name: String, line: Int) throws {
        guard given.insert(name).inserted else { throw error(line, "\(name) is given twice.") }
    }

    /// Whether it is a setting's name, or that of the file that holds a secret.
    private static func isSetting(_ name: String) -> Bool {
        SettingKey(rawValue: name) != nil
            || name.hasSuffix("_file") && SettingKey(rawValue: String(name.dropLast(5)))?.isSecret == true
    }

    private func error(_ line: Int, _ message: String) -> SettingsError {
        SettingsError(place: place(line: line), message: message)
    }

    /// `http`, `http.tls`, `database` and so on.
    private static let sections: Set<String> = Set(
        SettingKey.allCases.flatMap { key in
            let parts = key.rawValue.split(separator: ".").dropLast()
            return parts.indices.map { parts[...$0].joined(separator: ".") }
        }
    )
}
