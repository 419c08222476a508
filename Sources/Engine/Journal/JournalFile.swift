import EventLoop
import Glibc

/// A file of records. It stays locked for the lifetime of this object.
final class JournalFile: Sendable {
    let name: String
    let size: Int
    let descriptor: FileDescriptor

    init(name: String, size: Int, descriptor: consuming FileDescriptor) {
        self.name = name
        self.size = size
        self.descriptor = descriptor
    }

    /// Whether the file is still in a directory. A record that is appended to a deleted file is lost when the process
    /// ends.
    var isLinked: Bool {
        var status = stat()
        return fstat(descriptor.rawValue, &status) == 0 && status.st_nlink > 0
    }

    /// Frees the space beyond `end`. A failure is ignored, because nothing beyond `end` is read.
    func truncate(_ end: Int) {
        _ = ftruncate(descriptor.rawValue, end)
    }
}

/// A buffered reader of a file's records.
struct RecordReader {
    /// The number of bytes that are read at a time, unless a record is longer.
    private static let readAhead = 256 * 1024

    /// The result of scanning a file.
    struct Contents: Equatable {
        /// The end of the last record up to which all records are intact.
        var end = 0
        var records = 0
        /// The offset of a record that was on disk and can no longer be read.
        var damage: Int?
    }

    private let file: JournalFile
    private var buffer: ArraySlice<UInt8> = []
    private var bufferStart = 0

    init(_ file: JournalFile) {
        self.file = file
    }

    /// Reads the record at `offset`, with its encoded header and the offset of the next record. Returns `nil` if there
    /// is no intact record.
    mutating func record(
        at offset: Int
    ) throws(SystemError) -> (encoded: EncodedRecord, record: JournalRecord, next: Int)? {
        guard let encoded = EncodedRecord(header: try bytes(offset, EncodedRecord.headerLength)) else { return nil }
        let bytes = try bytes(offset, EncodedRecord.headerLength + encoded.payloadLength)
        guard bytes.count == EncodedRecord.headerLength + encoded.payloadLength, encoded.matches(bytes) else {
            return nil
        }
        let record = JournalRecord(time: encoded.time, payload: Array(bytes.dropFirst(EncodedRecord.headerLength)))
        return (encoded, record, offset + EncodedRecord.length(payload: encoded.payloadLength))
    }

    /// Scans the whole file for records and damage.
    ///
    /// After the last intact record come zeros, a write that was never acknowledged, or damage. It is damage if a later
    /// record states that this part was already on disk when it was written: then acknowledged records are lost.
    mutating func contents() throws(SystemError) -> Contents {
        var contents = Contents()
        while let (_, _, next) = try record(at: contents.end) {
            contents.end = next
            contents.records += 1
        }
        if EncodedRecord.isOfAnotherVersion(try bytes(contents.end, EncodedRecord.headerLength)) {
            contents.damage = contents.end
            return contents
        }
        var offset = contents.end
        while offset < file.size {
            let piece = try bytes(offset, Self.readAhead)
            guard !piece.isEmpty else { break }
            if !Self.isZero(piece) {
                for start in stride(from: offset, to: offset + piece.count, by: EncodedRecord.alignment) {
                    if let (encoded, _, _) = try record(at: start), encoded.durable > contents.end {
                        contents.damage = contents.end
                        return contents
                    }
                }
            }
            offset += Self.readAhead
        }
        return contents
    }

    private static func isZero(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress else { return true }
            // All bytes are zero if the first is, and each equals the one before it.
            return bytes[0] == 0 && memcmp(start, start + 1, bytes.count - 1) == 0
        }
    }

    /// Returns `count` bytes at `offset`, or fewer at the end of the file.
    private mutating func bytes(_ offset: Int, _ count: Int) throws(SystemError) -> ArraySlice<UInt8> {
        let count = min(count, file.size - offset)
        guard offset >= 0, count > 0 else { return [] }
        if offset < bufferStart || offset + count > bufferStart + buffer.count {
            try fill(offset, min(max(count, Self.readAhead), file.size - offset))
        }
        let start = buffer.startIndex + offset - bufferStart
        guard start < buffer.endIndex else { return [] }
        return buffer[start..<min(start + count, buffer.endIndex)]
    }

    private mutating func fill(_ offset: Int, _ count: Int) throws(SystemError) {
        var failure: SystemError?
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            while filled < count {
                let read = pread(
                    file.descriptor.rawValue,
                    buffer.baseAddress.map { $0 + filled },
                    count - filled,
                    offset + filled
                )
                if read < 0, errno == EINTR { continue }
                if read < 0 { failure = SystemError(call: "pread") }
                guard read > 0 else { break }
                filled += read
            }
        }
        if let failure { throw failure }
        buffer = bytes[...]
        bufferStart = offset
    }
}
