import ArgumentParser
import Endpoints
import JSON
import Server

struct OpenAPICommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "openapi",
        abstract: "Print the OpenAPI document of the HTTP API.",
        discussion: "The document is the one that a server returns at /openapi.json. No settings are read."
    )

    func run() {
        print(OpenAPIDocument.service.json.indented(), terminator: "")
    }
}
