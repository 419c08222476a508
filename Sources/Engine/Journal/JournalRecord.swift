package import FoundationEssentials

/// A record of a journal.
package struct JournalRecord: Sendable {
    /// The time given by the caller. A metric reports the time of the oldest waiting record.
    package let time: Date
    package let payload: [UInt8]

    package init(time: Date, payload: [UInt8]) {
        self.time = time
        self.payload = payload
    }
}

/// The encoding of a record in a file. All numbers are little-endian.
///
/// | offset | bytes | |
/// | --- | --- | --- |
/// | 0 | 3 | `KPJ` |
/// | 3 | 1 | version, 1 |
/// | 4 | 4 | length of the payload |
/// | 8 | 4 | number of bytes of the file that were on disk when this record was written |
/// | 12 | 4 | CRC-32C of everything else, without the padding |
/// | 16 | 8 | time, milliseconds since 1970 |
/// | 24 | | payload, padded with zeros to a multiple of 8 |
///
/// The number at offset 8 distinguishes a damaged record from one that a crash cut short. A broken record that was on disk
/// before a later record was written had been acknowledged. Of the last write that is unknown: it was not, if a sector of it
/// is missing.
struct EncodedRecord {
    static let magic: [UInt8] = [UInt8](ascii: "KPJ")
    static let version: UInt8 = 1
    static let headerLength = 24
    static let alignment = 8
    /// The longest payload in bytes: larger than any body that Kakao sends, and small enough to be read at once.
    static let maximumPayload = 4 << 20

    /// Returns the number of bytes that a record with a payload of `payload` bytes takes in a file.
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

    /// Parses a header. Returns `nil` unless `header` begins with a header of this version.
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

    /// Returns whether `header` has a later version. A torn header has version 0.
    static func isOfAnotherVersion(_ header: ArraySlice<UInt8>) -> Bool {
        header.count >= headerLength && header.starts(with: magic) && header[header.startIndex + 3] > version
    }

    /// Returns whether the checksum of `bytes`, a header and its payload without padding, is valid.
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
