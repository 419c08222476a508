import ArgumentParser
import Runtime
import Server

@main
struct PushServerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "push-server",
        abstract: "A backend between your apps and Kakao, for device tokens, pushes and Kakao's callbacks.",
        discussion: """
            Settings come from a file and from the environment, which overrides it: http.port is HTTP_PORT. Without --config the \
            file is \(SettingsOptions.defaultFiles.joined(separator: ", else ")). push-server settings prints all of them. To \
            try the server without configuration, run push-server dev.
            """,
        version: "\(ServerVersion.current) (\(ServerVersion.revision))",
        subcommands: [
            ServeCommand.self, DevCommand.self, MigrateCommand.self, KeysCommand.self, PushesCommand.self,
            UsersCommand.self, AccountsCommand.self, MessagesCommand.self, TemplatesCommand.self, StatusCommand.self,
            SenderCommand.self, WebhooksCommand.self, JournalCommand.self,
            HealthCommand.self, DoctorCommand.self, SettingsCommand.self, OpenAPICommand.self,
        ]
    )
}
