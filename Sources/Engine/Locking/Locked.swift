package import Glibc

/// A value protected by a POSIX mutex.
///
/// `Synchronization.Mutex` is not used because ThreadSanitizer does not recognize it on Linux and reports each use as a
/// race. Real races would be lost among the false ones.
package final class Locked<Value>: @unchecked Sendable {
    // `value` is accessed under `mutex` only.
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

    /// Runs `body` with exclusive access to the value. `body` must not call this function again, suspend or block.
    @inlinable
    package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}
