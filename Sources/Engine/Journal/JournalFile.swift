import EventLoop
import Glibc

/// A file of records. It stays locked for the lifetime of this object.
final class JournalFile: Sendable {
    let name: String
    let size: Int
    let descriptor: FileDescriptor

    init(name: String, size: Int, descriptor: consuming FileDescriptor) {
        self.name = name
        self.size = size
        self.descriptor = descriptor
    }

    /// Whether the file is still in a directory. A record that is appended to a deleted file is lost when the process
    /// ends.
    var isLinked: Bool {
        var status = stat()
        return fstat(descriptor.rawValue, &status) == 0 && status.st_nlink > 0
    }

    /// Frees the space beyond `end`. A failure is ignored, because nothing beyond `end` is read.
    func truncate(_ end: Int) {
        _ = ftruncate(descriptor.rawValue, end)
    }
}
