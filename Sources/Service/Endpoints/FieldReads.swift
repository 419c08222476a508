#if DEBUG
import Locking

/// The fields that handlers have read, so that a test can find declared fields that none reads.
package enum FieldReads {
    private static let reads = Locked<[String: Set<String>]>([:])

    static func record(_ name: String, of operation: OperationDeclaration) {
        _ = reads.withLock { $0[operation.id, default: []].insert(name) }
    }

    /// Returns the names of the declared fields that no handler has read since this process began.
    package static func unread(of operation: OperationDeclaration) -> Set<String> {
        operation.fieldNames.subtracting(reads.withLock { $0[operation.id] ?? [] })
    }
}
#endif
