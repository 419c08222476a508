internal import EventLoop
internal import Journal
internal import Logging

/// The journal of calls from Kakao, wired: what takes calls on each loop, and what replays them.
struct CallJournal: Sendable {
    /// `nil` without `journal.directory`.
    let journal: Journal?
    private let replayer: JournalReplayer?

    /// Opens the journal. Blocks.
    ///
    /// - Parameters:
    ///   - store: Of `loop`: stores what is replayed.
    ///   - loop: Where replaying runs.
    /// - Throws: ``SettingsError`` for a directory that cannot be used.
    init(_ settings: Settings.Journal, store: ReceivedCallStore, loop: EventLoop, logger: Logger) throws {
        guard let directory = settings.directory else {
            (journal, replayer) = (nil, nil)
            return
        }
        do {
            let journal = try Journal(
                path: directory,
                maximumBytes: settings.maximumBytes,
                operations: settings.fileOperations,
                logger: logger
            )
            self.journal = journal
            replayer = JournalReplayer(journal: journal, store: store, loop: loop, logger: logger)
        } catch {
            throw SettingsError(place: SettingKey.journalDirectory.rawValue, message: "It cannot be used: \(error).")
        }
    }

    /// Replays until it is stopped. Needs a database that is ready.
    func run() async { await replayer?.run() }

    /// Lets ``run()`` end after the batch in hand.
    func stop() async { await replayer?.stop() }

    /// Writes what waits for the disk and releases the files.
    func close() async { await journal?.close() }
}
