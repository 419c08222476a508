import ArgumentParser
import Endpoints
import JSON
import Server

struct OpenAPICommand: ParsableCommand {
    enum Format: String, ExpressibleByArgument {
        case json
        /// The tables of `docs/api.md`.
        case markdown
    }

    static let configuration = CommandConfiguration(
        commandName: "openapi",
        abstract: "Print the OpenAPI document of the HTTP API.",
        discussion: """
            The document is the one that a server returns at /openapi.json. With --format markdown, the command prints the tables of \
            docs/api.md. No settings are read.
            """
    )

    @Option(help: "json or markdown.")
    var format = Format.json

    func run() {
        switch format {
        case .json: print(OpenAPIDocument.service.json.indented(), terminator: "")
        case .markdown: print(APITables.markdown, terminator: "")
        }
    }
}
