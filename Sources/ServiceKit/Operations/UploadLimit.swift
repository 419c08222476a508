internal import HTTPTypes
internal import Locking

/// A limit of concurrent requests of one expensive kind, such as uploads or dry runs. It applies to a server with all
/// of its event loops.
package final class UploadLimit: Sendable {
    private let free: Locked<Int>

    package init(_ count: Int) {
        free = Locked(count)
    }

    /// Reserves a place. Returns whether one was free.
    package func take() -> Bool {
        free.withLock { free in
            guard free > 0 else { return false }
            free -= 1
            return true
        }
    }

    /// Releases a reserved place.
    package func release() {
        free.withLock { $0 += 1 }
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
