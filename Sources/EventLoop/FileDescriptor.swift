internal import CLinux
internal import Glibc

/// A file descriptor with one owner: it is closed when its owner lets go of it, and never twice.
///
/// A descriptor that is registered with an ``EventLoop`` is deregistered before its owner drops it (`docs/decisions/0001`).
package struct FileDescriptor: ~Copyable, Sendable {
    /// The number that the kernel knows it by.
    package let rawValue: Int32

    /// Takes ownership of a descriptor that the caller has opened.
    package init(owning rawValue: Int32) {
        self.rawValue = rawValue
    }

    deinit {
        _ = close(rawValue)
    }
}

/// A system call that failed.
package struct SystemError: Error, Sendable, CustomStringConvertible {
    /// The call, by its name in the manual: `bind`, `epoll_ctl`.
    package let call: String
    /// `errno` as the call left it.
    package let code: Int32

    package init(call: String, code: Int32 = errno) {
        self.call = call
        self.code = code
    }

    package var description: String {
        "\(call): \(String(cString: strerror(code))) (errno \(code))"
    }
}
