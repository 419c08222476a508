import EventLoop
import FoundationEssentials
import Glibc

/// A buffered reader of a file's records, which goes on behind bytes that cannot be read.
struct RecordReader {
    /// The number of bytes that are read at a time, unless a record is longer.
    private static let readAhead = 256 * 1024
    /// The unit in which a disk stores a write: all of it or none of it.
    private static let sector = 512
    /// The unit in which a file is read after a read error.
    private static let page = 4096

    /// Bytes between records, or after the last one, that are no record.
    struct Gap: Equatable {
        let range: Range<Int>
        /// Whether acknowledged records may have been here. Otherwise it is a write that a crash cut short, which was
        /// never acknowledged.
        let isDamage: Bool
    }

    /// The result of scanning a file.
    struct Contents: Equatable {
        /// The end of the last intact record.
        var end = 0
        var records = 0
        /// The time of the first intact record.
        var oldest: Date?
        var gaps: [Gap] = []
        /// The file begins with a record of a later version of this program, and has none of this version.
        var isOfAnotherVersion = false
    }

    private let file: JournalFile
    private let operations: FileOperations
    private var buffer: ArraySlice<UInt8> = []
    private var bufferStart = 0
    /// The offsets of pages that the disk could not read, and that read as zeros here.
    private var unreadable: Set<Int> = []

    init(_ file: JournalFile, _ operations: FileOperations) {
        self.file = file
        self.operations = operations
    }

    /// Reads the record at `offset`, and returns it with the offset of the next one. Returns `nil` if there is no intact
    /// record.
    mutating func record(at offset: Int) throws(SystemError) -> (record: JournalRecord, next: Int)? {
        guard let (encoded, bytes) = try intactRecord(at: offset) else { return nil }
        let record = JournalRecord(time: encoded.time, payload: Array(bytes.dropFirst(EncodedRecord.headerLength)))
        return (record, offset + EncodedRecord.length(payload: encoded.payloadLength))
    }

    /// Returns the offset of the first intact record after `offset` and before `limit`.
    ///
    /// Text of a payload is not mistaken for a record: a header contains control characters, which JSON escapes.
    mutating func nextRecord(after offset: Int, before limit: Int) throws(SystemError) -> Int? {
        var start = offset + EncodedRecord.alignment
        while start < limit {
            let piece = try bytes(start, min(Self.readAhead, limit - start))
            guard !piece.isEmpty else { return nil }
            if !Self.isZero(piece) {
                for candidate in stride(from: 0, to: piece.count, by: EncodedRecord.alignment)
                where piece[piece.startIndex + candidate] == EncodedRecord.magic[0] {
                    if try intactRecord(at: start + candidate) != nil { return start + candidate }
                }
            }
            start += piece.count
        }
        return nil
    }

    /// Scans the whole file for records and gaps.
    mutating func contents() throws(SystemError) -> Contents {
        var contents = Contents()
        var gaps: [Range<Int>] = []
        var offset = 0
        // The number of bytes that were on disk when the latest record was written: all of them were acknowledged.
        var durable = 0
        while offset < file.size {
            if let (encoded, _) = try intactRecord(at: offset) {
                contents.records += 1
                contents.oldest = contents.oldest ?? encoded.time
                durable = max(durable, encoded.durable)
                offset += EncodedRecord.length(payload: encoded.payloadLength)
                contents.end = offset
            } else if let next = try nextRecord(after: offset, before: file.size) {
                gaps.append(offset..<next)
                offset = next
            } else {
                break
            }
        }
        let header = try bytes(0, EncodedRecord.headerLength)
        contents.isOfAnotherVersion = contents.records == 0 && EncodedRecord.isOfAnotherVersion(header)
        for gap in gaps {
            let isCutShort = try isCutShort(gap)
            contents.gaps.append(Gap(range: gap, isDamage: gap.lowerBound < durable || !isCutShort))
        }
        // The space after the last record is reserved and reads as zeros. Other bytes are the remains of a record.
        if let used = try usedEnd(after: contents.end) {
            let gap = contents.end..<used
            let isCutShort = try isCutShort(gap)
            contents.gaps.append(Gap(range: gap, isDamage: !isCutShort && !endsAtSector(gap)))
        }
        return contents
    }

    private mutating func intactRecord(
        at offset: Int
    ) throws(SystemError) -> (encoded: EncodedRecord, bytes: ArraySlice<UInt8>)? {
        guard let encoded = EncodedRecord(header: try bytes(offset, EncodedRecord.headerLength)) else { return nil }
        let bytes = try bytes(offset, EncodedRecord.headerLength + encoded.payloadLength)
        guard bytes.count == EncodedRecord.headerLength + encoded.payloadLength, encoded.matches(bytes) else {
            return nil
        }
        return (encoded, bytes)
    }

    /// Returns whether a sector of a gap was never written: it is as it was reserved, zeros. A write that was synced has
    /// no such sector, since each 8 bytes of a record contain one that is not zero.
    private mutating func isCutShort(_ gap: Range<Int>) throws(SystemError) -> Bool {
        var start = gap.lowerBound
        while true {
            let end = (start / Self.sector + 1) * Self.sector
            // The rest of the last sector was written together with the record that follows.
            guard end <= gap.upperBound else { return false }
            let isZero = Self.isZero(try bytes(start, end - start))
            if isZero, !unreadable.contains(start / Self.page * Self.page) { return true }
            start = end
        }
    }

    /// Returns whether a gap at the end of the file was written up to the end of a sector, as a write is whose next
    /// sector is missing. The last bytes of the sector may be zeros of a header or of the padding.
    private func endsAtSector(_ gap: Range<Int>) -> Bool {
        !unreadable.contains((gap.upperBound - 1) / Self.page * Self.page)
            && (gap.upperBound - 1) % Self.sector >= Self.sector - EncodedRecord.headerLength
    }

    /// Returns the end of the last bytes after `offset` that are not zero or cannot be read.
    private mutating func usedEnd(after offset: Int) throws(SystemError) -> Int? {
        var used: Int?
        var start = offset
        while start < file.size {
            let piece = try bytes(start, Self.readAhead)
            guard !piece.isEmpty else { break }
            if !Self.isZero(piece), let last = piece.lastIndex(where: { $0 != 0 }) {
                used = start + last - piece.startIndex + 1
            }
            start += piece.count
        }
        if let page = unreadable.max(), page + Self.page > offset {
            used = max(used ?? 0, min(page + Self.page, file.size))
        }
        return used
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
        do {
            buffer = try read(offset, count)[...]
        } catch let error where error.isOfMedium {
            // A bad sector must not hide the records around it.
            var bytes: [UInt8] = []
            while bytes.count < count {
                let start = offset + bytes.count
                let length = min(Self.page - start % Self.page, count - bytes.count)
                do {
                    let piece = try read(start, length)
                    guard !piece.isEmpty else { break }
                    bytes += piece
                } catch let error where error.isOfMedium {
                    unreadable.insert(start / Self.page * Self.page)
                    bytes += repeatElement(0, count: length)
                }
            }
            buffer = bytes[...]
        }
        bufferStart = offset
    }

    private func read(_ offset: Int, _ count: Int) throws(SystemError) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            let piece = try operations.read(file.descriptor.rawValue, count - bytes.count, offset + bytes.count)
            guard !piece.isEmpty else { break }
            bytes += piece
        }
        return bytes
    }
}

extension SystemError {
    /// Whether the disk cannot read what it stored, or its checksum is wrong (pread(2); ext4, XFS).
    fileprivate var isOfMedium: Bool { [EIO, ENODATA, EBADMSG, EUCLEAN].contains(code) }
}
