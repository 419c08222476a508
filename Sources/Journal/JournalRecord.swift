package import FoundationEssentials

/// A record as it was appended.
package struct JournalRecord: Sendable {
    /// Given by the caller; the oldest one that waits is a metric.
    package let time: Date
    package let payload: [UInt8]

    package init(time: Date, payload: [UInt8]) {
        self.time = time
        self.payload = payload
    }
}

/// The form of a record in a file, all numbers little-endian:
///
/// | offset | bytes | |
/// | --- | --- | --- |
/// | 0 | 3 | `KPJ` |
/// | 3 | 1 | version, 1 |
/// | 4 | 4 | length of the payload |
/// | 8 | 4 | length of the file's part that was on disk when this record was written |
/// | 12 | 4 | CRC-32C of everything else, without the padding |
/// | 16 | 8 | time, milliseconds since 1970 |
/// | 24 | | payload, padded with zeros to a multiple of 8 |
///
/// The length at offset 8 tells a torn record from a damaged one: a broken record that was on disk before a later one was written has been
/// acknowledged, any other has not.
struct EncodedRecord {
    static let magic: [UInt8] = [UInt8](ascii: "KPJ")
    static let version: UInt8 = 1
    static let headerLength = 24
    static let alignment = 8
    /// Larger than any body that Kakao sends, and small enough to be read in one piece.
    static let maximumPayload = 4 << 20

    /// The bytes that a record with so long a payload takes.
    static func length(payload: Int) -> Int {
        (headerLength + payload + alignment - 1) / alignment * alignment
    }

    static func append(_ record: JournalRecord, durable: Int, to output: inout [UInt8]) {
        let start = output.count
        output.append(contentsOf: magic)
        output.append(version)
        append(UInt32(truncatingIfNeeded: record.payload.count), to: &output)
        append(UInt32(truncatingIfNeeded: durable), to: &output)
        append(UInt32(0), to: &output)
        append(milliseconds(record.time), to: &output)
        output.append(contentsOf: record.payload)
        let checksum = checksum(output[start...])
        for index in 0..<4 { output[start + 12 + index] = UInt8(truncatingIfNeeded: checksum >> UInt32(8 * index)) }
        output.append(
            contentsOf: repeatElement(0, count: length(payload: record.payload.count) - (output.count - start))
        )
    }

    let payloadLength: Int
    let durable: Int
    let time: Date
    private let checksum: UInt32

    /// Reads a header, or returns `nil` for bytes that are none of this version.
    init?(header: ArraySlice<UInt8>) {
        guard header.count >= Self.headerLength, header.starts(with: Self.magic),
            header[header.startIndex + 3] == Self.version
        else { return nil }
        func number<Number: FixedWidthInteger>(_ offset: Int, _: Number.Type) -> Number {
            let start = header.startIndex + offset
            return (0..<MemoryLayout<Number>.size).reduce(0) { $0 | Number(header[start + $1]) << Number(8 * $1) }
        }
        payloadLength = Int(number(4, UInt32.self))
        durable = Int(number(8, UInt32.self))
        checksum = number(12, UInt32.self)
        time = Date(timeIntervalSince1970: Double(Int64(bitPattern: number(16, UInt64.self))) / 1000)
        guard payloadLength <= Self.maximumPayload else { return nil }
    }

    /// Whether a header is one of a later version. A torn one has version 0.
    static func isOfAnotherVersion(_ header: ArraySlice<UInt8>) -> Bool {
        header.count >= headerLength && header.starts(with: magic) && header[header.startIndex + 3] > version
    }

    /// Whether `bytes`, header and payload without padding, are as they were written.
    func matches(_ bytes: ArraySlice<UInt8>) -> Bool {
        Self.checksum(bytes) == checksum
    }

    private static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        CRC32C.checksum(bytes.dropFirst(16), after: CRC32C.checksum(bytes.prefix(12)))
    }

    private static func append(_ number: some FixedWidthInteger, to output: inout [UInt8]) {
        withUnsafeBytes(of: number.littleEndian) { output.append(contentsOf: $0) }
    }

    private static func milliseconds(_ time: Date) -> Int64 {
        Int64(exactly: (time.timeIntervalSince1970 * 1000).rounded()) ?? 0
    }
}

extension [UInt8] {
    init(ascii text: StaticString) {
        self = text.withUTF8Buffer { Array($0) }
    }
}
