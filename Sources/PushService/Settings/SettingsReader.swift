internal import Configuration

/// A reader of single settings, from the environment or else from the file. It knows the place of each, for errors.
struct SettingsReader {
    private let configuration: ConfigReader
    private let environment: [String: String]
    private let file: SettingsFile?
    /// Reads a file that contains a secret.
    private let readFile: (String) throws -> String

    init(environment: [String: String], file: SettingsFile?, readFile: @escaping (String) throws -> String) {
        // An empty variable counts as unset: a compose file turns an unset variable into an empty one.
        let environment = environment.filter { !$0.value.isEmpty }
        self.environment = environment
        self.file = file
        self.readFile = readFile
        let values = file?.entries.map { name, entry in
            (
                AbsoluteConfigKey(name.split(separator: ".").map(String.init)),
                ConfigValue(.string(entry.value), isSecret: true)
            )
        }
        configuration = ConfigReader(providers: [
            EnvironmentVariablesProvider(environmentVariables: environment),
            InMemoryProvider(values: Dictionary(values ?? []) { first, _ in first }),
        ])
    }

    /// Returns the text of a setting, or `nil` if it is not set.
    ///
    /// - Throws: ``SettingsError`` if the file of a secret cannot be read.
    func text(_ key: SettingKey) throws -> String? {
        let name = ConfigKey(key.rawValue.split(separator: ".").map(String.init))
        if let text = configuration.string(forKey: name, isSecret: key.isSecret) { return text }
        guard key.isSecret else { return nil }
        let fileName = ConfigKey("\(key.rawValue)_file".split(separator: ".").map(String.init))
        guard let path = configuration.string(forKey: fileName) else { return nil }
        do {
            let text = try readFile(path).trimmingNewlines()
            return text.isEmpty ? nil : text
        } catch {
            throw SettingsError(
                place: place(of: key),
                message: "The file \(path) for \(key.rawValue) cannot be read."
            )
        }
    }

    /// Returns the place of a setting, for error messages.
    func place(of key: SettingKey) -> String {
        for suffix in ["", "_FILE"] where environment[key.environmentName + suffix] != nil {
            return "\(key.environmentName)\(suffix) in the environment"
        }
        for suffix in ["", "_file"] {
            if let file, let entry = file.entries[key.rawValue + suffix] { return file.place(line: entry.line) }
        }
        return "\(key.rawValue) (\(key.environmentName) in the environment)"
    }

    func error(_ key: SettingKey, _ message: String) -> SettingsError {
        SettingsError(place: place(of: key), message: "\(key.rawValue) \(message)")
    }

    // MARK: Kinds

    func integer(_ key: SettingKey, in range: ClosedRange<Int>) throws -> Int? {
        guard let text = try text(key) else { return nil }
        guard text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let number = Int(text), range.contains(number) else {
            throw error(key, "must be an integer from \(range.lowerBound) to \(range.upperBound).")
        }
        return number
    }

    /// Returns a limit from 1 to 1,000,000, `.some(nil)` for 0, which means no limit, or `nil` if it is not set.
    func limit(_ key: SettingKey) throws -> Int?? {
        try integer(key, in: 0...1_000_000).map { $0 == 0 ? nil : $0 }
    }

    func seconds(_ key: SettingKey, default value: Int) throws -> Duration {
        .seconds(try integer(key, in: 1...3600) ?? value)
    }

    func boolean(_ key: SettingKey) throws -> Bool? {
        switch try text(key)?.lowercased() {
        case nil: nil
        case "true", "yes", "1": true
        case "false", "no", "0": false
        default: throw error(key, "must be true or false.")
        }
    }

    func choice<Value: RawRepresentable & CaseIterable>(
        _ key: SettingKey,
        _: Value.Type
    ) throws -> Value? where Value.RawValue == String {
        guard let text = try text(key) else { return nil }
        guard let value = Value(rawValue: text) else {
            throw error(key, "must be one of \(Value.allCases.map(\.rawValue).joined(separator: ", ")).")
        }
        return value
    }

    /// Returns an `http` or `https` URL without trailing slashes, or `nil` if it is not set.
    func url(_ key: SettingKey) throws -> String? {
        guard var text = try text(key) else { return nil }
        while text.hasSuffix("/") { text.removeLast() }
        let host = text.split(separator: "://", maxSplits: 1).dropFirst().first ?? ""
        guard text.hasPrefix("https://") || text.hasPrefix("http://"), !host.isEmpty,
            text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { throw error(key, "must be a URL that begins with https:// or http://.") }
        return text
    }

    func secret(_ key: SettingKey, atLeast length: Int) throws -> Secret? {
        guard let text = try text(key) else { return nil }
        guard text.utf8.count >= length else { throw error(key, "must have at least \(length) characters.") }
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw error(key, "must contain only visible ASCII characters, without spaces.")
        }
        return Secret(text)
    }
}

extension String {
    /// Returns the text without the line end that editors and `echo` append to a secret.
    fileprivate func trimmingNewlines() -> String {
        var text = self
        while let last = text.last, last.isNewline { text.removeLast() }
        return text
    }
}
