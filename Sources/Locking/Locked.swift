package import Glibc

/// A value that one thread at a time touches, behind a POSIX mutex.
///
/// `Synchronization.Mutex` would do, but that ThreadSanitizer does not see it on Linux and takes each use for a race: a test suite
/// that cannot tell a race from a lock finds none.
package final class Locked<Value>: @unchecked Sendable {
    // `value` is touched under `mutex` only.
    @usableFromInline var value: Value
    @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>

    package init(_ value: Value) {
        self.value = value
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Runs `body` with the value while no other thread has it. Not to be called again from within `body`, nor to suspend or block
    /// there.
    @inlinable
    package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}
