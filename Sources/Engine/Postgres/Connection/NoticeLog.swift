import CLibpq
import Logging

/// The server's notices on one connection: they are logged, and one of them withdraws a commit.
///
/// A transaction that waits for a synchronous standby is committed already. If its wait is cancelled, the server reports
/// success and a warning: the commit is lost if that standby is promoted (PostgreSQL manual, "Synchronous Replication").
final class NoticeLog: @unchecked Sendable {
    // Only used on the connection's loop: libpq calls the receiver while it reads.

    /// The function of PostgreSQL that raises the warning. Unlike the text, it is the same in every language; its SQLSTATE
    /// is that of any warning.
    private static let waitForStandby = "SyncRepWaitForLSN"

    private let logger: Logger
    private var hasCancelledWait = false

    init(logger: Logger) {
        self.logger = logger
    }

    /// Returns whether a wait for a synchronous standby was cancelled since the last call.
    ///
    /// libpq reads no result of a transaction before it has passed on the warnings that precede it, and none of the next
    /// transaction before the end of this one was taken.
    func takeCancelledWait() -> Bool {
        defer { hasCancelledWait = false }
        return hasCancelledWait
    }

    static let receiver: @convention(c) (UnsafeMutableRawPointer?, OpaquePointer?) -> Void = { log, notice in
        guard let log, let notice else { return }
        Unmanaged<NoticeLog>.fromOpaque(log).takeUnretainedValue().receive(notice)
    }

    private func receive(_ notice: OpaquePointer) {
        if ServerAnswer.field(.sourceFunction, of: notice) == Self.waitForStandby { hasCancelledWait = true }
        let text = PQresultErrorMessage(notice).map { String(cString: $0) } ?? ""
        logger.debug(
            "PostgreSQL notice received",
            metadata: ["notice": "\(text.split(whereSeparator: \.isNewline).joined(separator: " "))"]
        )
    }
}
