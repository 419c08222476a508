package import EventLoop
import HTTPServer
import HTTPTypes
import Locking

/// A limit of concurrent requests of one expensive kind, such as uploads or dry runs. It applies to a server with all
/// of its event loops.
package final class ConcurrencyLimit: Sendable {
    /// The number of places.
    package let count: Int
    private let free: Locked<Int>

    package init(_ count: Int) {
        self.count = count
        free = Locked(count)
    }

    /// Acquires a place. Returns whether one was free.
    package func acquire() -> Bool {
        free.withLock { free in
            guard free > 0 else { return false }
            free -= 1
            return true
        }
    }

    /// Acquires a place for an upload.
    ///
    /// - Parameter rule: What the server accepts, in words that follow "This server accepts".
    /// - Throws: ``Problem`` 503 if none is free.
    package func acquireUpload(_ rule: String) throws {
        guard acquire() else {
            throw Problem(
                of: .tooManyUploads,
                "This server accepts \(rule). Try again.",
                headerFields: [.retryAfter: "30"]
            )
        }
    }

    /// Releases an acquired place.
    package func release() {
        free.withLock { $0 += 1 }
    }
}

extension ConcurrencyLimit {
    /// The time for which a request waits for its place. Its body is not read meanwhile.
    private static let wait = Duration.seconds(5)

    /// Runs `body` with a place, for which it waits a few seconds.
    ///
    /// - Throws: ``Problem`` 503 if no place becomes free, and the errors of `body`.
    package func run<Result>(on loop: EventLoop, _ body: () async throws -> Result) async throws -> Result {
        let deadline = MonotonicTime.now + Self.wait
        while !acquire() {
            guard MonotonicTime.now < deadline else {
                throw Problem(
                    of: .tooManyUploads,
                    "This server is receiving as many uploads as it can. Try again.",
                    headerFields: [.retryAfter: "5"]
                )
            }
            try await loop.sleep(for: .milliseconds(20))
        }
        defer { release() }
        return try await body()
    }
}

// The problems of uploads.
extension ProblemKind {
    package static let invalidLines = ProblemKind(.badRequest, "invalid-lines", "The upload has invalid lines.")
    package static let tooManyUploads = ProblemKind(
        .serviceUnavailable,
        "too-many-uploads",
        "The server is receiving as many uploads as it can."
    )
}
