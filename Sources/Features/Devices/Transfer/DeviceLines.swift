import Endpoints
import FoundationEssentials
import JSON

/// A parser of devices, one a line, from pieces that may be cut anywhere.
///
/// A line ends with LF or CR LF; the last one may also end with the text. An empty line is counted and skipped. A byte
/// order mark at the beginning is skipped too. Pure.
struct DeviceLines {
    /// A line without a valid device.
    struct BadLine: Equatable, Sendable {
        /// The line's number, counted from 1.
        let number: Int64
        /// The fault of the line. It quotes nothing of the line, which may contain a push token.
        let reason: String
    }

    /// The size limit of a line. A line with the longest texts that a device may have, all of them escaped, is shorter.
    static let maximumLineBytes = 128 * 1024
    /// The maximum number of bad lines to report: enough to see the fault of a file.
    private static let maximumBadLines = 10
    /// The number of bytes after the first bad line in which more bad lines are searched for.
    private static let maximumBytesAfterBadLine = 1 << 20
    private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

    /// The first bad lines.
    private(set) var badLines: [BadLine] = []
    /// The number of devices read.
    private(set) var count: Int64 = 0
    private let format: TransferFormat
    private let now: Date
    /// The columns of CSV, once the header has been parsed.
    private var columns: [TransferredDevice.Column]?
    /// The beginning of the current line, at most one byte longer than a line may be.
    private var line: [UInt8] = []
    private var number: Int64 = 1
    private var bytesAfterBadLine = 0
    private var hasBadHeader = false

    /// - Parameter now: The present time. A device registered later is invalid.
    init(_ format: TransferFormat, now: Date) {
        self.format = format
        self.now = now
    }

    /// Whether there are bad lines and the search for more has ended.
    var isHopeless: Bool {
        hasBadHeader || badLines.count == Self.maximumBadLines || bytesAfterBadLine > Self.maximumBytesAfterBadLine
    }

    /// Parses a piece and calls `body` with each device whose line ends in it, and the line's number.
    ///
    /// - Throws: The error that `body` throws.
    mutating func read<Failure: Error>(
        _ piece: [UInt8],
        _ body: (TransferredDevice, Int64) throws(Failure) -> Void
    ) throws(Failure) {
        if !badLines.isEmpty { bytesAfterBadLine += piece.count }
        var rest = piece[...]
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            if line.isEmpty {
                try parse(rest[..<end], body)
            } else {
                append(rest[..<end])
                try parseBufferedLine(body)
            }
            rest = rest[(end + 1)...]
        }
        append(rest)
    }

    /// Parses the end of the text.
    ///
    /// - Throws: The error that `body` throws.
    mutating func end<Failure: Error>(_ body: (TransferredDevice, Int64) throws(Failure) -> Void) throws(Failure) {
        try parseBufferedLine(body)
        guard format == .csv, columns == nil, badLines.isEmpty else { return }
        badLines.append(BadLine(number: 1, reason: Self.headerFault.reason))
    }

    private mutating func append(_ bytes: ArraySlice<UInt8>) {
        line += bytes.prefix(Self.maximumLineBytes + 1 - line.count)
    }

    private mutating func parseBufferedLine<Failure: Error>(
        _ body: (TransferredDevice, Int64) throws(Failure) -> Void
    ) throws(Failure) {
        var buffered: [UInt8] = []
        swap(&buffered, &line)
        try parse(buffered[...], body)
    }

    /// Parses a line without its LF.
    private mutating func parse<Failure: Error>(
        _ bytes: ArraySlice<UInt8>,
        _ body: (TransferredDevice, Int64) throws(Failure) -> Void
    ) throws(Failure) {
        defer { number += 1 }
        var bytes = bytes
        if number == 1, bytes.starts(with: Self.byteOrderMark) { bytes = bytes.dropFirst(Self.byteOrderMark.count) }
        if bytes.last == UInt8(ascii: "\r") { bytes = bytes.dropLast() }
        guard !bytes.isEmpty, !hasBadHeader else { return }
        let device: TransferredDevice?
        do throws(LineFault) {
            guard bytes.count <= Self.maximumLineBytes else {
                throw LineFault("longer than \(Self.maximumLineBytes) bytes")
            }
            device = try read(bytes)
        } catch {
            refuse(error)
            return
        }
        guard let device else { return }
        count += 1
        try body(device, number)
    }

    private mutating func refuse(_ fault: LineFault) {
        if badLines.count < Self.maximumBadLines { badLines.append(BadLine(number: number, reason: fault.reason)) }
    }

    // MARK: One line

    /// Parses a line. Returns `nil` for the header.
    private mutating func read(_ line: ArraySlice<UInt8>) throws(LineFault) -> TransferredDevice? {
        switch format {
        case .ndjson:
            return try readJSON(line)
        case .csv:
            if let columns { return try readRecord(line, columns) }
            do throws(LineFault) {
                columns = try Self.header(line)
            } catch {
                hasBadHeader = true
                throw error
            }
            return nil
        }
    }

    private func readJSON(_ line: ArraySlice<UInt8>) throws(LineFault) -> TransferredDevice {
        let value: JSONValue
        do {
            value = try JSONValue(parsing: line.span, maximumDepth: 2)
        } catch {
            throw LineFault("invalid JSON: \(error)")
        }
        guard let object = value.object else { throw LineFault("not a JSON object") }
        // If a misspelt expires_at were ignored, every device would be registered at Kakao again.
        guard object.members.allSatisfy({ TransferredDevice.Column(rawValue: $0.name) != nil }) else {
            throw LineFault("unknown member; allowed: \(TransferredDevice.Column.names)")
        }
        return try TransferredDevice(now: now) { column in
            object[column.rawValue].flatMap { $0.isNull ? nil : .json($0) }
        }
    }

    private func readRecord(
        _ line: ArraySlice<UInt8>,
        _ columns: [TransferredDevice.Column]
    ) throws(LineFault) -> TransferredDevice {
        let fields = try CSVRecord.fields(of: line)
        guard fields.count == columns.count else {
            throw LineFault("wrong number of fields; the header has \(columns.count)")
        }
        return try TransferredDevice(now: now) { column in
            columns.firstIndex(of: column).flatMap { fields[$0].isEmpty ? nil : .text(fields[$0]) }
        }
    }

    private static let headerFault = LineFault(
        "the header must name columns among \(TransferredDevice.Column.names), each once and in any order; the first four are required"
    )

    private static func header(_ line: ArraySlice<UInt8>) throws(LineFault) -> [TransferredDevice.Column] {
        let names = try CSVRecord.fields(of: line)
        let columns = names.compactMap { TransferredDevice.Column(rawValue: $0) }
        guard columns.count == names.count, Set(columns).count == columns.count,
            Set(columns).isSuperset(of: TransferredDevice.Column.required)
        else { throw headerFault }
        return columns
    }
}
