/// User ids as rows of `COPY … FROM STDIN (FORMAT binary)` into one column of `bigint` (PostgreSQL manual, "COPY",
/// "Binary Format"). The format is cheap to write here and cheap to read for PostgreSQL.
struct UserIDRows {
    /// The signature, the flags, and the length of the header's extension.
    private static let header = Array("PGCOPY\n".utf8) + [0xFF, 0x0D, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    /// The beginning of a row: one field of eight bytes.
    private static let beginning: [UInt8] = [0, 1, 0, 0, 0, 8]
    /// The end of the data, in place of a row's number of fields.
    private static let trailer: [UInt8] = [0xFF, 0xFF]

    /// The bytes to send next.
    private(set) var bytes = header
    /// The number of rows so far, including those already drained.
    private(set) var count = 0

    mutating func append(_ id: Int64) {
        bytes += Self.beginning
        withUnsafeBytes(of: id.bigEndian) { bytes += $0 }
        count += 1
    }

    /// Appends the end of the data.
    mutating func appendTrailer() {
        bytes += Self.trailer
    }

    /// Removes and returns the bytes to send next.
    mutating func drain() -> [UInt8] {
        var taken: [UInt8] = []
        taken.reserveCapacity(bytes.count)
        swap(&taken, &bytes)
        return taken
    }
}
