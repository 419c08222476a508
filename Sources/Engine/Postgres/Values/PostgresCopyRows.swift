/// Rows for a `COPY … FROM STDIN (FORMAT binary)` (PostgreSQL manual, "COPY", "Binary Format"), appended one by one.
///
/// The server does not convert values: each must have exactly the type of its column.
package struct PostgresCopyRows: Sendable {
    /// The signature, the flags, and the length of the header's extension.
    private static let header = Array("PGCOPY\n".utf8) + [0xFF, 0x0D, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0, 0]

    /// The bytes to send next.
    package private(set) var bytes = header

    package init() {}

    /// Appends a row: a value for each column that the statement names, in its order.
    ///
    /// - Throws: ``PostgresError/Code/invalidParameter`` for a value that PostgreSQL cannot store. The rows are
    ///   unusable then.
    package mutating func append(_ values: [PostgresValue]) throws(PostgresError) {
        bytes.appendBigEndian(Int16(clamping: values.count))
        for value in values {
            switch value.storage {
            case .null:
                bytes.appendBigEndian(Int32(-1))
            case .word(let word, let byteCount):
                bytes.appendBigEndian(Int32(byteCount))
                for index in (0..<byteCount).reversed() {
                    bytes.append(UInt8(truncatingIfNeeded: word >> UInt64(8 * index)))
                }
            case .text(let text):
                bytes.appendBigEndian(Int32(clamping: text.utf8.count))
                bytes.append(contentsOf: text.utf8)
            case .bytes(let array):
                bytes.appendBigEndian(Int32(clamping: array.count))
                bytes.append(contentsOf: array)
            case .refused(let why):
                throw PostgresError(.invalidParameter, detail: why)
            }
        }
    }

    /// Appends the trailer, after the last row.
    package mutating func appendTrailer() {
        // -1 in place of a row's number of fields.
        bytes.appendBigEndian(Int16(-1))
    }

    /// Removes and returns the bytes to send next.
    package mutating func take() -> [UInt8] {
        var taken: [UInt8] = []
        taken.reserveCapacity(bytes.count)
        swap(&taken, &bytes)
        return taken
    }
}
