import ArgumentParser
import Server

extension SettingsDocument: ExpressibleByArgument {}

struct SettingsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "settings",
        abstract: "Print all settings with their defaults.",
        discussion:
            "The formats are those of docs/settings.md, config/push-server.yaml and .env.example. No settings are read."
    )

    @Option(help: "markdown, yaml or environment.")
    var format = SettingsDocument.yaml

    func run() {
        print(format.text, terminator: "")
    }
}
