import FoundationEssentials
import Glibc

/// Common parts of PostgreSQL's binary formats (`src/backend/utils/adt/*send` and `*recv`).
enum BinaryFormat {
    /// The time from PostgreSQL's epoch, 2000-01-01, to the epoch of `Date`, 2001-01-01.
    private static let secondsBetweenEpochs = 366.0 * 86_400
    private static let microsecondsPerSecond = 1_000_000.0
    /// The two ends of the range stand for `infinity` and `-infinity`.
    private static let infinity = Int64.max
    private static let minusInfinity = Int64.min

    /// The first byte of a binary `jsonb`: the version of its format.
    static let jsonbVersion: UInt8 = 1

    /// Returns the microseconds since 2000-01-01; `nil` for a date that is not a number or far beyond the type's range.
    static func microseconds(of date: Date) -> Int64? {
        let microseconds = (date.timeIntervalSinceReferenceDate + secondsBetweenEpochs) * microsecondsPerSecond
        return Int64(exactly: microseconds.rounded())
    }

    /// Returns the date of a binary `timestamptz`. Its two infinities become the distant past and future.
    static func date(microseconds: Int64) -> Date {
        switch microseconds {
        case infinity: .distantFuture
        case minusInfinity: .distantPast
        default:
            Date(timeIntervalSinceReferenceDate: Double(microseconds) / microsecondsPerSecond - secondsBetweenEpochs)
        }
    }

    /// Returns whether a text contains a NUL, the only character that PostgreSQL's `text` cannot store.
    static func containsNUL(_ text: String) -> Bool {
        // A native string is scanned in place.
        text.utf8.withContiguousStorageIfAvailable { utf8 in
            utf8.baseAddress.map { memchr($0, 0, utf8.count) != nil } ?? false
        } ?? text.utf8.contains(0)
    }
}

extension UnsafeRawBufferPointer {
    /// Returns the big-endian integer at `offset`; `nil` if it does not fit into the buffer.
    func bigEndian<Integer: FixedWidthInteger & BitwiseCopyable>(
        at offset: Int = 0,
        as type: Integer.Type = Integer.self
    ) -> Integer? {
        guard offset >= 0, count - offset >= MemoryLayout<Integer>.size else { return nil }
        return Integer(bigEndian: loadUnaligned(fromByteOffset: offset, as: type))
    }
}

extension Array where Element == UInt8 {
    mutating func appendBigEndian(_ value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }
}
