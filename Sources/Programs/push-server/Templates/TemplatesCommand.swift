import ArgumentParser
import Settings
import Templates

/// Checks of message templates, without a server and without settings.
struct TemplatesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "templates",
        abstract: "Check and preview templates of KakaoTalk messages.",
        subcommands: [Lint.self, Preview.self]
    )

    /// A file with a template.
    struct TemplateFile: ParsableArguments {
        @Argument(help: "A file with the JSON of a template (template_object); - for standard input.")
        var file: String

        func contents() throws -> [UInt8] {
            guard let bytes = FileContents.read(file == "-" ? "/dev/stdin" : file) else {
                throw ValidationError("\(file) cannot be read, or exceeds 1 MiB.")
            }
            return bytes
        }
    }

    struct Lint: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Say what Kakao would reject, cut or drop of a template.",
            discussion: "The exit code is 1 if Kakao would reject it, or if it could not be checked."
        )

        @OptionGroup var template: TemplateFile
        @Option(help: "Domains registered at Kakao, as in sharing.domains (repeatable). Links to others are reported.")
        var domain: [String] = []

        func validate() throws { _ = try domains }

        private var domains: [String] {
            get throws {
                try domain.flatMap { text in
                    guard let domains = SettingKind.domains.parse(text) else {
                        throw ValidationError("--domain \(SettingKind.domains.problem)")
                    }
                    return domains
                }
            }
        }

        func run() throws {
            let findings = TemplateLinter(domains: try domains).findings(in: try template.contents())
            for finding in findings {
                let line =
                    "\(template.file): \(finding.effect.rawValue): \(finding.path): \(finding.message) [\(finding.rule)]"
                print(line.withoutActiveCharacters)
            }
            if findings.contains(where: { $0.effect == .rejected || $0.endsCheck }) { throw ExitCode(1) }
            if findings.isEmpty { print("\(template.file): no findings") }
        }
    }

    struct Preview: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print a template approximately as KakaoTalk shows it."
        )

        @OptionGroup var template: TemplateFile
        @Flag(help: "Print an HTML page instead of text.")
        var html = false

        func run() throws {
            let json = try template.contents()
            let message: Template
            do throws(Template.Unreadable) {
                message = try Template(json: json, TemplateLinter().findings(in: json))
            } catch {
                print("\(template.file): \(error.reason)".withoutActiveCharacters)
                throw ExitCode(1)
            }
            let preview = TemplatePreview(message)
            print(html ? preview.html : preview.text, terminator: "")
        }
    }
}
