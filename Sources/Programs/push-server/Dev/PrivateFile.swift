import Glibc
import Settings

/// Files that only their owner may read.
enum PrivateFile {
    /// Writes `text` atomically: a reader sees the old file or the new one.
    static func write(_ text: String, to path: String) throws {
        let temporary = "\(path).new"
        // A file that is there may be of a run that was killed, or a link of another user of this machine. Neither is
        // written to, nor are its permissions kept.
        unlink(temporary)
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SettingsError(place: path, message: "The file cannot be written.") }
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count, rename(temporary, path) == 0 else {
            throw SettingsError(place: path, message: "The file cannot be written.")
        }
    }
}
