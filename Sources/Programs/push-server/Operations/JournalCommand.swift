import ArgumentParser
import Endpoints
import FoundationEssentials
import JSON
import Journal
import Server
import Settings

struct JournalCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "journal",
        abstract: "Inspect and replay files of the journal of Kakao's calls.",
        discussion:
            "Both commands work on this machine's files, while servers run and while PostgreSQL is unavailable.",
        subcommands: [Show.self, Replay.self]
    )

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print the calls of a file, and the bytes that are none.",
            discussion: """
                A line has the offset, the time of receipt, the number of bytes, and the kind and id of the call. Damaged \
                bytes are lines of their own.
                """
        )

        @Argument(help: "A .journal file, or a file of rejected/.")
        var file: String

        @Flag(help: "Print what Kakao sent as well: user ids, custom arguments and failed push tokens.")
        var payload = false

        @concurrent
        func run() async throws {
            try await reportingFailures {
                var (calls, gaps) = (0, 0)
                try JournalFileContents(path: file).forEach { part in
                    switch part {
                    case .record(let record, let offset, let length):
                        calls += 1
                        let call = payload ? JournalCommand.payload(record) : JournalCommand.name(record)
                        Terminal.writeLine("\(offset)  \(record.time.rfc3339)  \(length)  \(call)")
                    case .gap(let range, let isDamage):
                        gaps += 1
                        let what = isDamage ? "damaged" : "incomplete write, not acknowledged"
                        Terminal.writeLine("\(range.lowerBound)  -  \(range.count)  \(what)")
                    }
                }
                Terminal.writeLine("calls: \(calls), gaps: \(gaps)")
            }
        }
    }

    struct Replay: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Append the calls of a file to the journal, from which a server stores them.",
            discussion: """
                A running server of the journal's directory stores the calls within 10 s, as soon as PostgreSQL responds. \
                Calls that are already stored have no effect. A file of rejected/ is deleted, unless a part of it is damaged.
                """
        )

        @OptionGroup var options: SettingsOptions

        @Option(help: "The journal's directory. (default: the setting journal.directory)")
        var directory: String?

        @Argument(help: "A .journal file, or a file of rejected/.")
        var file: String

        @concurrent
        func run() async throws {
            try await reportingFailures {
                guard let directory = try directory ?? options.load().journal.directory else {
                    throw SettingsError(place: "journal.directory", message: "Not set: give --directory.")
                }
                let contents = try JournalFileContents(path: file)
                let count = try contents.replay(in: directory)
                guard count > 0 else {
                    Terminal.writeError("push-server: \(file) has no intact call. Nothing was appended.")
                    throw ExitCode.failure
                }
                var isDamaged = false
                try contents.forEach { part in
                    if case .gap(_, isDamage: true) = part { isDamaged = true }
                }
                let isRemoved = !isDamaged && JournalFileContents.removeRejected(file, in: directory)
                let end = isRemoved ? ". The file was deleted." : ""
                Terminal.writeLine("Calls appended to the journal: \(count)\(end)")
            }
        }
    }

    /// The kind of a call, and its id if it has one.
    private static func name(_ record: JournalRecord) -> String {
        guard let member = (try? JSONValue(parsing: record.payload))?.object?.members.first else {
            return "not a call of this version"
        }
        let id = (member.value.array?.first ?? member.value)["id"]?.string
        return Text.printable([member.name, id].compactMap(\.self).joined(separator: " "))
    }

    private static func payload(_ record: JournalRecord) -> String {
        Text.printable(String(decoding: record.payload, as: UTF8.self))
    }
}
