internal import EventLoop
internal import Journal
internal import Logging
internal import ServiceKit

/// The journal of calls from Kakao and its replayer. The intake of each event loop appends calls, and the replayer
/// stores them.
struct CallJournal: Sendable {
    /// `nil` without `journal.directory`.
    let journal: Journal?
    private let replayer: JournalReplayer?

    /// Opens the journal. Blocks.
    ///
    /// - Parameters:
    ///   - store: The store of `loop`, for replayed calls.
    ///   - loop: The event loop of the replayer.
    /// - Throws: ``SettingsError`` for an unusable directory.
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
            throw SettingsError(place: SettingKey.journalDirectory.rawValue, message: "Unusable directory: \(error).")
        }
    }

    /// The worker that replays the journal, if there is one. It requires a database that is ready.
    var worker: BackgroundWorker? { replayer?.worker }

    /// Writes pending records to disk and releases the files.
    func close() async { await journal?.close() }
}
