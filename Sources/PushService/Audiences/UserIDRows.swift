/// User ids as the rows of a `COPY … FROM STDIN (FORMAT binary)` into one column of `bigint` (PostgreSQL manual, "COPY", "Binary
/// Format"): cheap to write, and cheap to read for the server.
struct UserIDRows {
    /// Signature, flags, length of the header's extension.
    private static let header = Array("PGCOPY\n".utf8) + [0xFF, 0x0D, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    /// A row has one field, and that has eight bytes.
    private static let beginning: [UInt8] = [0, 1, 0, 0, 0, 8]
    /// In place of a row's number of fields.
    private static let trailer: [UInt8] = [0xFF, 0xFF]

    /// What is to be sent next.
    private(set) var bytes = header
    /// The rows so far, also those that have been taken.
    private(set) var count = 0

    mutating func append(_ id: Int64) {
        bytes += Self.beginning
        withUnsafeBytes(of: id.bigEndian) { bytes += $0 }
        count += 1
    }

    /// There are no more.
    mutating func end() {
        bytes += Self.trailer
    }

    /// Hands over what is to be sent next.
    mutating func take() -> [UInt8] {
        var taken: [UInt8] = []
        taken.reserveCapacity(bytes.count)
        swap(&taken, &bytes)
        return taken
    }
}
