internal import ArgumentParser
internal import PushService

@main
struct PushServerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "push-server",
        abstract: "Stands between your apps and Kakao: device tokens, pushes, and Kakao's callbacks.",
        discussion: """
            Settings come from config/push-server.yaml and from the environment, which overrides it: http.port is HTTP_PORT. \
            docs/settings.md has all of them. To try it with nothing configured: push-server dev.
            """,
        version: ServerVersion.current,
        subcommands: [
            ServeCommand.self, DevCommand.self, MigrateCommand.self, KeysCommand.self, PushesCommand.self,
            HealthCommand.self, DoctorCommand.self,
        ]
    )
}
