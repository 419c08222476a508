/// A reader of single settings, from the environment or else from the file. It knows the place of each, for errors.
package struct SettingsReader {
    private let environment: [String: String]
    private let file: SettingsFile?
    /// Reads a file that contains a secret.
    private let readFile: (String) throws -> String

    package init(environment: [String: String], file: SettingsFile?, readFile: @escaping (String) throws -> String) {
        // An empty variable counts as unset: a compose file turns an unset variable into an empty one.
        self.environment = environment.filter { !$0.value.isEmpty }
        self.file = file
        self.readFile = readFile
    }

    /// Returns the name of a setting's environment variable: `HTTP_PORT` for `http.port`.
    package static func environmentName(_ name: String) -> String {
        String(name.map { $0 == "." ? "_" : Character($0.uppercased()) })
    }

    /// Returns the value of a setting, or `nil` if it is not set.
    ///
    /// - Throws: ``SettingsError`` if it is invalid, or if the file of a secret cannot be read.
    package func value<Value>(_ name: String, _ kind: SettingKind<Value>) throws -> Value? {
        guard let text = try kind.isSecret ? text(name) ?? textOfFile(name) : text(name) else { return nil }
        guard let value = kind.parse(text) else { throw error(name, kind.problem) }
        return value
    }

    /// Returns the file that contains a secret: its own, or the settings file. `nil` if it is in the environment or not set.
    package func file(ofSecret name: String) -> String? {
        guard environment[Self.environmentName(name)] == nil else { return nil }
        return file?.entries[name] == nil ? text("\(name)_file") : file?.path
    }

    private func text(_ name: String) -> String? {
        environment[Self.environmentName(name)] ?? file?.entries[name]?.value
    }

    /// Returns the contents of the file that has the secret, without the line end that editors and `echo` append.
    private func textOfFile(_ name: String) throws -> String? {
        guard let path = text("\(name)_file") else { return nil }
        do {
            var text = try readFile(path)
            while let last = text.last, last.isNewline { text.removeLast() }
            return text.isEmpty ? nil : text
        } catch {
            throw SettingsError(place: place(of: name), message: "The file \(path) for \(name) cannot be read.")
        }
    }

    /// Returns the place of a setting, for error messages.
    private func place(of name: String) -> String {
        let variable = Self.environmentName(name)
        for suffix in ["", "_FILE"] where environment[variable + suffix] != nil {
            return "\(variable)\(suffix) in the environment"
        }
        for suffix in ["", "_file"] {
            if let file, let entry = file.entries[name + suffix] { return file.place(line: entry.line) }
        }
        return "\(name) (\(variable) in the environment)"
    }

    /// Returns the error of a setting.
    ///
    /// - Parameter message: The problem, in words that follow the name.
    package func error(_ name: String, _ message: String) -> SettingsError {
        SettingsError(place: place(of: name), message: "\(name) \(message)")
    }
}
