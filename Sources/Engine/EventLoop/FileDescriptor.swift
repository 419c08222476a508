import CLinux
import Glibc

/// A file descriptor with one owner, closed exactly once, when its owner releases it.
///
/// A descriptor that is registered with an ``EventLoop`` must be deregistered before its owner releases it
/// (`docs/decisions/0001`).
package struct FileDescriptor: ~Copyable, Sendable {
    /// The descriptor's number in the kernel.
    package let rawValue: Int32

    /// Takes ownership of a descriptor that the caller has opened.
    package init(owning rawValue: Int32) {
        self.rawValue = rawValue
    }

    deinit {
        _ = close(rawValue)
    }

    /// Returns the number of the open descriptor, whose owner is the caller from now on.
    package consuming func release() -> Int32 {
        let number = rawValue
        discard self
        return number
    }
}

/// A system call that failed.
package struct SystemError: Error, Sendable, CustomStringConvertible {
    /// The name of the call in the manual: `bind`, `epoll_ctl`.
    package let call: String
    /// The `errno` that the call set.
    package let code: Int32

    package init(call: String, code: Int32 = errno) {
        self.call = call
        self.code = code
    }

    package var description: String {
        "\(call): \(String(cString: strerror(code))) (errno \(code))"
    }
}
