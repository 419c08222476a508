import Dispatch
import Endpoints
import EventLoop
import FoundationEssentials
import Glibc

/// The last claim of a process in a queue, in a file that outlives the process.
///
/// PostgreSQL replays commits in their order: if the last claim of a process that was killed is in the database, so are all before
/// it, and it is known what the process may have sent. A process that ends in good order deletes its file. Servers may share a
/// directory: a file is locked (`flock`) while its process runs.
package final class ClaimFile: Sendable {
    /// A claim.
    package struct Claim: Codable, Sendable, Equatable {
        /// The lease of the claim.
        package let lease: UUID
        /// The owner of a piece of work that was claimed, its number, and the number of its claims.
        package let owner: UUID
        package let number: Int32
        package let claims: Int32
        /// The start of the machine. The file may be older than the last claim if the machine was restarted.
        private let boot: String
        /// When it was written, in seconds since 1970.
        private let writtenAt: Double

        package init(lease: UUID, _ id: ClaimID) {
            self.lease = lease
            owner = id.ownerID
            number = id.number
            claims = id.claims
            boot = ClaimFile.boot
            writtenAt = Date().timeIntervalSince1970
        }

        /// Whether the process cannot have claimed anything later.
        var isLast: Bool { boot == ClaimFile.boot }

        /// Whether the work cannot have been deleted since because it is old.
        package var isRecent: Bool {
            Date().timeIntervalSince1970 - writtenAt < RecentFacts.maximumAge.inSeconds
        }
    }

    /// The length of a file, so that a shorter claim covers a longer one.
    private static let length = 512
    private static let boot = (try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8)) ?? ""

    private let path: String
    private let descriptor: FileDescriptor
    /// The claim of a process that was killed; `nil` if it made none.
    private let lastClaim: Claim?

    /// Creates a file. Blocks.
    ///
    /// - Parameters:
    ///   - directory: A directory that outlives the process.
    ///   - queue: The queue of the claims.
    package init(in directory: String, of queue: String) throws(SystemError) {
        lastClaim = nil
        path = "\(directory)/\(UUID().uuidString.lowercased())\(Self.suffix(queue))"
        let rawValue = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard rawValue >= 0 else { throw SystemError(call: "open \(path)") }
        descriptor = FileDescriptor(owning: rawValue)
        guard flock(rawValue, LOCK_EX | LOCK_NB) == 0 else { throw SystemError(call: "flock \(path)") }
    }

    /// Writes a claim, before anything of it is carried out. A file that cannot be written is deleted: it says nothing then.
    package func write(_ claim: Claim) async {
        await Self.onBlockingQueue { [self] in
            guard var text = try? JSONEncoder().encode(claim) else { return }
            text.append(contentsOf: repeatElement(UInt8(ascii: " "), count: max(0, Self.length - text.count)))
            let written = text.withUnsafeBytes { pwrite(descriptor.rawValue, $0.baseAddress, $0.count, 0) }
            if written != text.count { unlink(path) }
        }
    }

    /// Deletes the file: all claims were settled.
    package func remove() async {
        await Self.onBlockingQueue { [path] in _ = unlink(path) }
    }

    /// Passes the last claims of processes that were killed to `body`, and then deletes their files.
    package static func settle(
        in directory: String,
        of queue: String,
        _ body: ([Claim]) async throws -> Void
    ) async throws {
        let files = await onBlockingQueue { abandoned(in: directory, of: queue) }
        guard !files.isEmpty else { return }
        try await body(files.compactMap(\.lastClaim))
        for file in files { await file.remove() }
    }

    /// The end of the names of a queue's files.
    private static func suffix(_ queue: String) -> String { ".\(queue).claims" }

    /// The files of processes that were killed.
    private static func abandoned(in directory: String, of queue: String) -> [ClaimFile] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        return names.filter { $0.hasSuffix(suffix(queue)) }.compactMap { ClaimFile(abandoned: "\(directory)/\($0)") }
    }

    /// Opens the file of a process that was killed; `nil` for one that is in use.
    private init?(abandoned path: String) {
        self.path = path
        let rawValue = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
        guard rawValue >= 0 else { return nil }
        descriptor = FileDescriptor(owning: rawValue)
        guard flock(rawValue, LOCK_EX | LOCK_NB) == 0 else { return nil }
        var bytes = [UInt8](repeating: 0, count: Self.length)
        let count = bytes.withUnsafeMutableBytes { pread(rawValue, $0.baseAddress, $0.count, 0) }
        lastClaim = try? JSONDecoder().decode(Claim.self, from: Data(bytes.prefix(max(0, count))))
    }

    private static func onBlockingQueue<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
        await withCheckedContinuation { continuation in
            EventLoop.blocking.async { continuation.resume(returning: body()) }
        }
    }
}
