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
            Applies the pending SQL files of this version in order: tables, then new and changed functions, then their \
            triggers. It is safe while servers run: it waits at most two seconds for a lock, lets others go ahead, tries \
            again for a minute, and says who blocks it. Two concurrent migrate commands wait for each other.
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
            let migrator = try Migrator(ofProgramOr: options.migrations)
            let applied = try await migrator.migrate(
                settings: PostgresSettings(url: settings.databaseURL.revealed),
                loop: loops.loops[0],
                logger: settings.logger(sink)
            )
            for migration in applied.migrations { print("applied \(migration.name)") }
            if !applied.functions.isEmpty {
                print("applied functions \(applied.functions.map(\.name).joined(separator: " "))")
            }
            if applied.isEmpty { print("nothing to apply") }
            for name in applied.newer { print("unknown \(name): the database is newer than this program") }
        }
    }
}
