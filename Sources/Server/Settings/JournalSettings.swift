import EventLoop
package import Journal
import Logging
package import Settings

/// The settings of the journal, which stores Kakao's calls while PostgreSQL is unavailable.
package struct JournalSettings: SettingsGroup {
    /// The directory of the journal; `nil` for no journal.
    package var directory: String?
    package var maximumBytes = 1 << 30
    /// The file operations, which tests replace to simulate failing disks.
    package var fileOperations = FileOperations.system

    /// The size of a file of account events that could not be verified yet: about a thousand events.
    fileprivate static let unverifiedFileSize = 1 << 20
    /// The number of these files. Anyone can send such events while Kakao's keys cannot be fetched, so they have room of their
    /// own.
    static let maximumUnverifiedFiles = 8

    package init() {}

    package static let settings: [Setting<JournalSettings>] = [
        Setting(
            "journal.directory",
            \.directory,
            optional: .path,
            default: "none; `/var/lib/push-server/journal` in the image, `.local/journal` with `dev`",
            example: "/var/lib/push-server/journal",
            "the directory that keeps calls from Kakao while PostgreSQL is unavailable; without it they are lost, and the log has a warning at start ([calls from Kakao](callbacks.md)). Use a local disk that outlives the container"
        ),
        Setting(
            "journal.max_bytes",
            \.maximumBytes,
            .bytes(1 << 20...1 << 40),
            "the maximum size of all files in that directory; beyond it Kakao's calls are answered 503"
        ),
    ]
}

extension Journal {
    /// Opens the journal of calls from Kakao; `nil` without `journal.directory`. Blocks.
    ///
    /// - Throws: ``SettingsError`` for an unusable directory.
    convenience init?(_ settings: JournalSettings, logger: Logger) throws {
        guard let directory = settings.directory else { return nil }
        try self.init(directory, settings, maximumBytes: settings.maximumBytes, logger)
    }

    /// Opens the journal of account events that could not be verified yet; `nil` without `journal.directory`. Blocks.
    ///
    /// - Throws: ``SettingsError`` for an unusable directory.
    convenience init?(ofUnverifiedEvents settings: JournalSettings, logger: Logger) throws {
        guard let directory = settings.directory else { return nil }
        let fileSize = JournalSettings.unverifiedFileSize
        try self.init(
            "\(directory)/unverified",
            settings,
            maximumBytes: JournalSettings.maximumUnverifiedFiles * fileSize,
            fileSize: fileSize,
            logger
        )
    }

    private convenience init(
        _ path: String,
        _ settings: JournalSettings,
        maximumBytes: Int,
        fileSize: Int = Journal.defaultFileSize,
        _ logger: Logger
    ) throws {
        do {
            try self.init(
                path: path,
                maximumBytes: maximumBytes,
                fileSize: fileSize,
                operations: settings.fileOperations,
                logger: logger
            )
        } catch {
            throw SettingsError(place: "journal.directory", message: "Unusable directory: \(error).")
        }
    }
}

extension RecentRecords {
    /// Opens the files of the calls from Kakao that were stored in the last minutes; `nil` if none are kept. Blocks.
    ///
    /// - Throws: ``SettingsError`` for an unusable directory.
    convenience init?(_ settings: JournalSettings, minutes: Int, logger: Logger) throws {
        guard let directory = settings.directory, minutes > 0 else { return nil }
        do {
            try self.init(
                path: "\(directory)/recent",
                retention: .seconds(60 * minutes),
                maximumBytes: settings.maximumBytes,
                operations: settings.fileOperations,
                logger: logger
            )
        } catch {
            throw SettingsError(place: "journal.directory", message: "Unusable directory: \(error).")
        }
    }
}
