import Glibc

/// A reader of single settings, from the environment or else from the file. It knows the place of each, for errors.
///
/// A secret that neither sets is read from a file that has its name. systemd passes such files on (`systemd.exec(5)`,
/// `LoadCredential=`): the server reads `$CREDENTIALS_DIRECTORY/push-server_kakao.admin_key`. Without systemd they are read where they
/// come from, in a folder beside the settings file: `push-server.credentials/kakao.admin_key`.
///
/// Each mapping of a setting that is a list has a reader of its own, for which the mapping is the file.
package struct SettingsReader {
    private let environment: [String: String]
    private let file: SettingsFile?
    /// The path of the files of secrets, up to the names of the settings; `nil` for none.
    private let credentials: String?
    /// Reads a file that contains a secret.
    private let readFile: (String) throws -> String

    /// - Parameters:
    ///   - credentials: The folder of the files of secrets, for a process that systemd passes none; `nil` for none.
    package init(
        environment: [String: String],
        file: SettingsFile?,
        credentials: String? = nil,
        readFile: @escaping (String) throws -> String
    ) {
        // An empty variable counts as unset: a compose file turns an unset variable into an empty one.
        self.environment = environment.filter { !$0.value.isEmpty }
        self.file = file
        let passed = self.environment["CREDENTIALS_DIRECTORY"].map { "\($0)/push-server_" }
        self.credentials = passed ?? credentials.map { "\($0)/" }
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

    /// Returns the value of a setting.
    ///
    /// - Throws: ``SettingsError`` if it is not set or invalid, or if the file of a secret cannot be read.
    package func required<Value>(_ name: String, _ kind: SettingKind<Value>) throws -> Value {
        guard let value = try value(name, kind) else { throw error(name, "is required.") }
        return value
    }

    /// Returns a reader of each mapping of a list, or `nil` if the list is not set.
    ///
    /// - Throws: ``SettingsError`` for a variable that is no list of mappings of these members.
    func mappings(_ name: String, _ members: [SettingMember]) throws -> [SettingsReader]? {
        let variable = Self.environmentName(name)
        let mappings: [SettingsFile]
        if let json = environment[variable] {
            mappings = try SettingsFile.list(name, of: SettingNames(members), json: json, variable: variable)
        } else if case .list(let given)? = file?.entries[name]?.value {
            mappings = given
        } else {
            return nil
        }
        return mappings.map { SettingsReader(environment: [:], file: $0, readFile: readFile) }
    }

    /// Returns the files that contain the secrets of a setting: files of their own, or the settings file. None for those in the
    /// environment.
    package func secretFiles<Group>(of setting: Setting<Group>) throws -> [String] {
        guard setting.isList else { return setting.isSecret ? [file(ofSecret: setting.name)].compactMap(\.self) : [] }
        let mappings = try self.mappings(setting.name, setting.members) ?? []
        let secrets = setting.members.filter(\.isSecret)
        return mappings.flatMap { mapping in secrets.compactMap { mapping.file(ofSecret: $0.name) } }
    }

    private func file(ofSecret name: String) -> String? {
        guard environment[Self.environmentName(name)] == nil else { return nil }
        return file?.entries[name] == nil ? text("\(name)_file") ?? credential(name) : file?.path
    }

    /// Returns the path of the file that has the name of a secret; `nil` if there is none.
    private func credential(_ name: String) -> String? {
        guard let path = credentials.map({ $0 + name }) else { return nil }
        do {
            _ = try readFile(path)
        } catch let failure as FileContents.Failure where failure.code == ENOENT {
            return nil
        } catch {
            // The file is there. The reason is reported when its text is needed.
        }
        return path
    }

    private func text(_ name: String) -> String? {
        environment[Self.environmentName(name)] ?? file?.entries[name]?.text
    }

    /// Returns the contents of the file that has the secret, without the line end that editors and `echo` append.
    private func textOfFile(_ name: String) throws -> String? {
        guard let path = text("\(name)_file") ?? credential(name) else { return nil }
        do {
            var text = try readFile(path)
            while let last = text.last, last.isNewline { text.removeLast() }
            return text.isEmpty ? nil : text
        } catch {
            throw SettingsError(
                place: place(of: name),
                message:
                    "The file \(path) for \(prefix)\(name) cannot be read\((error as? FileContents.Failure)?.words ?? "")."
            )
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
        if let path = credential(name) { return path }
        if let file, !file.prefix.isEmpty { return file.place(line: file.line) }
        return "\(name) (\(variable)\(SettingsError.missing)"
    }

    /// Returns the error of a setting.
    ///
    /// - Parameter message: The problem, in words that follow the name.
    package func error(_ name: String, _ message: String) -> SettingsError {
        SettingsError(place: place(of: name), message: "\(prefix)\(name) \(message)")
    }

    /// The start of names in errors: `webhooks.endpoints[0].` in a mapping of a list.
    private var prefix: String { file?.prefix ?? "" }
}
