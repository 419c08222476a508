internal import Journal
internal import Logging

extension Journal {
    /// Opens the journal of calls from Kakao; `nil` without `journal.directory`. Blocks.
    ///
    /// - Throws: ``SettingsError`` for an unusable directory.
    convenience init?(_ settings: JournalSettings, logger: Logger) throws {
        guard let directory = settings.directory else { return nil }
        do {
            try self.init(
                path: directory,
                maximumBytes: settings.maximumBytes,
                operations: settings.fileOperations,
                logger: logger
            )
        } catch {
            throw SettingsError(place: "journal.directory", message: "Unusable directory: \(error).")
        }
    }
}
