internal import ArgumentParser
internal import FoundationEssentials
internal import ServiceKit
internal import Templates

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

        func contents() throws -> String {
            if file == "-" {
                var text = ""
                while let line = readLine(strippingNewline: false) {
                    text += line
                    guard text.utf8.count <= TemplateLinter.maximumBytes else { break }
                }
                return text
            }
            guard let bytes = FileContents.read(file) else {
                throw ValidationError("\(file) cannot be read, or exceeds 1 MiB.")
            }
            return String(decoding: bytes, as: UTF8.self)
        }
    }

    struct Lint: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Say what Kakao would reject, cut or drop of a template.",
            discussion: "The exit code is 1 if Kakao would reject it."
        )

        @OptionGroup var template: TemplateFile
        @Option(help: "A domain registered at Kakao (repeatable). Links to other domains are reported.")
        var domain: [String] = []

        func run() throws {
            let findings = TemplateLinter(domains: domain).findings(in: try template.contents())
            for finding in findings {
                print(
                    "\(template.file): \(finding.effect.rawValue): \(finding.path): \(finding.message) [\(finding.rule)]"
                )
            }
            if findings.contains(where: { $0.effect == .rejected }) { throw ExitCode(1) }
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
            guard let message = try? Template(json: json) else {
                let finding = TemplateLinter().findings(in: json).first { $0.effect == .rejected }
                throw ValidationError(
                    "\(template.file) is not a template. \(finding.map { "\($0.path): \($0.message)" } ?? "")"
                )
            }
            let preview = TemplatePreview(message)
            print(html ? preview.html : preview.text, terminator: "")
        }
    }
}
