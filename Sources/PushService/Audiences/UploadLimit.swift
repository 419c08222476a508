internal import Locking

/// How many requests of one expensive kind, uploads or dry runs, a server takes at a time, over all of its loops.
final class UploadLimit: Sendable {
    private let free: Locked<Int>

    init(_ count: Int) {
        free = Locked(count)
    }

    /// Takes a place. Returns whether there was one.
    func take() -> Bool {
        free.withLock { free in
            guard free > 0 else { return false }
            free -= 1
            return true
        }
    }

    /// Gives a place back that was taken.
    func release() {
        free.withLock { $0 += 1 }
    }
}
