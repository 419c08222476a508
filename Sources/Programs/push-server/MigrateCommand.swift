import ArgumentParser
import Crypto
import EventLoop
import LogOutput
import Logging
import Postgres
import Server

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Apply pending migrations to the database.",
        discussion: """
            Applies the pending SQL files of migrations/ in order. It is safe while servers run, and two concurrent migrate \
            commands wait for each other.
            """
    )

    @OptionGroup var options: SettingsOptions

    @concurrent
    func run() async throws {
        try await reportingFailures {
            let settings = try options.load()
            let sink = LogSink()
            defer { sink.flush() }
            let loops = try EventLoopGroup(count: 1)
            defer { loops.shutdown() }
            let migrator = Migrator(directory: try options.migrationsFolder())
            let applied = try await migrator.migrate(
                settings: PostgresSettings(url: settings.databaseURL.revealed),
                loop: loops.loops[0],
                logger: settings.logger(sink)
            )
            for migration in applied { print("applied \(migration.name)") }
            if applied.isEmpty { print("nothing to apply") }
        }
    }
}
