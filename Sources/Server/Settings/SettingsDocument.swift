import Settings

/// The documents that describe the settings, written from their declarations.
package enum SettingsDocument: String, CaseIterable, Sendable {
    /// The table of `docs/settings.md`.
    case markdown
    /// `config/push-server.yaml`.
    case yaml
    /// `.env.example`.
    case environment

    /// The document.
    package var text: String {
        switch self {
        case .markdown: Self.table
        case .yaml: Self.file
        case .environment: Self.variables
        }
    }

    // MARK: docs/settings.md

    private static var table: String {
        let rows = Settings.all.map { setting in
            let required = setting.isRequired ? "required" : setting.defaultText
            let change = setting.isReloadable ? "reload" : "restart"
            return "| `\(setting.name)` | \(setting.allowed) | \(required) | \(change) | \(setting.description) |\n"
        }
        let head = "| setting | allowed | default | change | what it does |\n| --- | --- | --- | --- | --- |\n"
        return head + rows.joined()
    }

    // MARK: config/push-server.yaml

    private static var file: String {
        var text = """
            # The settings of push-server with their defaults or, where there is none, an example. Environment variables override
            # them: http.port is HTTP_PORT. A secret can also be read from a file: operator.key_file, or OPERATOR_KEY_FILE.
            # push-server settings --format yaml prints this file.

            """
        var section: Substring = ""
        for setting in Settings.all {
            if setting.section != section {
                section = setting.section
                text += "\n\(section):\n"
            }
            text += Self.comment(Self.sentence(of: setting), indentation: "  ")
            let key = setting.name.dropFirst(section.count + 1)
            let isFile = setting.isSecret && setting.example.hasPrefix("/")
            text += "  # \(key)\(isFile ? "_file" : ""):\(Self.example(of: setting))\n"
        }
        return text
    }

    /// Returns what follows the name of a setting.
    private static func example(of setting: Setting<Settings>) -> String {
        guard setting.isList else { return setting.example.isEmpty ? "" : " \(setting.example)" }
        let members = setting.members.filter { !$0.example.isEmpty }.map { "\($0.exampleName): \($0.example)" }
        return "\n  #   - " + members.joined(separator: "\n  #     ")
    }

    // MARK: .env.example

    private static var variables: String {
        // The image and compose set these: value and default.
        let ofCompose = [
            "http.host": ("0.0.0.0", "0.0.0.0 in the container, whose port docker-compose.yml publishes"),
            "database.url": ("", "the PostgreSQL that compose starts"),
        ]
        var text = """
            # The environment for `docker compose`: copy this file to .env, set the three values below, and uncomment settings to
            # change them. docs/settings.md describes each setting. NAME_FILE=/path reads a secret from a file in the container.
            # push-server settings --format environment prints this file.

            # The password of the server's PostgreSQL role: letters and digits, for example from `openssl rand -hex 16`. Required.
            POSTGRES_PASSWORD=

            """
        let required = Settings.all.filter { $0.isRequired && ofCompose[$0.name] == nil }
        for setting in required {
            text += Self.comment(Self.sentence(of: setting), indentation: "") + "\(setting.environmentName)=\n"
        }
        for setting in Settings.all where !required.contains(where: { $0.name == setting.name }) {
            let value = ofCompose[setting.name]?.0 ?? (setting.isSecret ? "" : setting.example)
            let sentence = Self.sentence(of: setting, default: ofCompose[setting.name]?.1)
            text += "\n" + Self.comment(sentence, indentation: "") + "# \(setting.environmentName)=\(value)\n"
        }
        return text
    }

    // MARK: Texts

    /// Returns a description without Markdown, with the allowed values and the default.
    ///
    /// - Parameter other: The default, if it is another one than that of the declaration.
    private static func sentence(of setting: Setting<Settings>, default other: String? = nil) -> String {
        var text = setting.description
        // References to other pages are of no use in a file.
        text.replace(/\s*\(\[[^\]]*\]\([^)]*\)\)/, with: "")
        text.replace(/\[([^\]]*)\]\([^)]*\)/) { String($0.output.1) }
        var facts = " Allowed: \(setting.allowed)."
        facts += setting.isRequired && other == nil ? " Required." : " Default: \(other ?? setting.defaultText)."
        text = text.prefix(1).uppercased() + text.dropFirst() + "." + facts
        return text.replacing("`", with: "").replacing("**", with: "")
    }

    /// Returns a text as comment lines.
    private static func comment(_ text: String, indentation: String) -> String {
        var lines: [String] = []
        var line = "\(indentation)#"
        for word in text.split(separator: " ") {
            if line.count + word.count >= 120 {
                lines.append(line)
                line = "\(indentation)#"
            }
            line += " \(word)"
        }
        lines.append(line)
        return lines.map { "\($0)\n" }.joined()
    }
}
