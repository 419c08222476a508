internal import Yams

/// The settings that a YAML file gives, each with the line it stands on.
///
/// Read as YAML's own tree and not as plain values, since only that knows the lines.
struct SettingsFile {
    struct Entry {
        let value: String
        let line: Int
    }

    private let path: String
    private(set) var entries: [String: Entry] = [:]

    /// - Parameters:
    ///   - yaml: The file's text.
    ///   - path: The file's name, for messages.
    /// - Throws: ``SettingsError`` that names the line of a mistake, of an unknown setting, or of a value that is no single one.
    init(yaml: String, path: String) throws {
        self.path = path
        let root: Node?
        do {
            root = try Yams.compose(yaml: yaml)
        } catch let error as YamlError {
            throw Self.mistake(error, path: path)
        }
        guard let root else { return }
        try read(root, under: "")
    }

    /// `config/push-server.yaml:7`.
    func place(line: Int) -> String { "\(path):\(line)" }

    private mutating func read(_ node: Node, under prefix: String) throws {
        switch node {
        case .mapping(let mapping):
            for (key, value) in mapping {
                let name = prefix.isEmpty ? key.string ?? "" : "\(prefix).\(key.string ?? "")"
                guard value.scalar == nil else {
                    try note(name, value, line: key.mark?.line ?? 0)
                    continue
                }
                let line = key.mark?.line ?? 0
                guard !Self.isSetting(name) else {
                    throw SettingsError(place: place(line: line), message: "\(name) must be a single value.")
                }
                guard Self.sections.contains(name) else { throw unknown(name, line: line) }
                try read(value, under: name)
            }
        case .scalar(let scalar) where scalar.string.isEmpty:
            break
        case .scalar, .sequence, .alias:
            throw SettingsError(
                place: place(line: node.mark?.line ?? 1),
                message: "\(prefix.isEmpty ? "The file" : prefix) must be a mapping of settings."
            )
        }
    }

    private mutating func note(_ name: String, _ value: Node, line: Int) throws {
        let text = value.scalar?.string ?? ""
        guard Self.isSetting(name) else {
            guard Self.sections.contains(name) else { throw unknown(name, line: line) }
            // A section whose settings are all commented out reads as an empty value.
            guard text.isEmpty else {
                throw SettingsError(place: place(line: line), message: "\(name) must be a mapping of settings.")
            }
            return
        }
        if !text.isEmpty { entries[name] = Entry(value: text, line: line) }
    }

    /// Whether it is a setting's name, or that of the file that holds a secret.
    private static func isSetting(_ name: String) -> Bool {
        SettingKey(rawValue: name) != nil
            || name.hasSuffix("_file") && SettingKey(rawValue: String(name.dropLast(5)))?.isSecret == true
    }

    /// What is wrong with a text that is no YAML. The error's own description quotes the line, which may hold a secret.
    private static func mistake(_ error: YamlError, path: String) -> SettingsError {
        switch error {
        case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
            .composer(_, let problem, let mark, _):
            SettingsError(place: "\(path):\(mark.line)", message: "This is not YAML: \(problem).")
        case .duplicatedKeysInMapping(_, let context):
            SettingsError(place: "\(path):\(context.mark.line)", message: "A name is given twice.")
        default:
            SettingsError(place: path, message: "The file is not YAML.")
        }
    }

    private func unknown(_ name: String, line: Int) -> SettingsError {
        SettingsError(place: place(line: line), message: "There is no setting \(name).")
    }

    /// `http`, `http.tls`, `database` and so on.
    private static let sections: Set<String> = Set(
        SettingKey.allCases.flatMap { key in
            let parts = key.rawValue.split(separator: ".").dropLast()
            return parts.indices.map { parts[...$0].joined(separator: ".") }
        }
    )
}
