internal import Locking

/// A limit of concurrent requests of one expensive kind, such as uploads or dry runs. It applies to a server with all
/// of its event loops.
final class UploadLimit: Sendable {
    private let free: Locked<Int>

    init(_ count: Int) {
        free = Locked(count)
    }

    /// Reserves a place. Returns whether one was free.
    func take() -> Bool {
        free.withLock { free in
            guard free > 0 else { return false }
            free -= 1
            return true
        }
    }

    /// Releases a reserved place.
    func release() {
        free.withLock { $0 += 1 }
    }
}
