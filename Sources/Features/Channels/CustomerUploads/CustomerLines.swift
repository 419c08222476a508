import Endpoints
import HTTPServer
import JSON
import KakaoAPI
import Schemas

/// A parser of customers, one a line, from pieces that may be cut anywhere: a JSON object with `id` and `field`, or an id alone.
///
/// A line ends with LF or CR LF; the last one may also end with the text. An empty line is counted and skipped, and so is a byte order
/// mark at the beginning. Pure.
struct CustomerLines {
    /// A line without a valid customer.
    struct BadLine: Sendable, Equatable {
        /// Its number, from 1.
        let number: Int64
        /// Its fault, which quotes nothing of it: it may contain a phone number.
        let reason: String
    }

    /// The limit of a line in bytes. One with the longest fields that a customer may have is shorter.
    static let maximumLineBytes = 32 * 1024
    /// The most bad lines that are reported: enough to see the fault of a file.
    private static let maximumBadLines = 10
    /// The number of bytes after the first bad line in which more bad lines are searched for.
    private static let maximumBytesAfterBadLine = 1 << 20
    private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

    private let type: CustomerType
    private(set) var badLines: [BadLine] = []
    private var line: [UInt8] = []
    private var number: Int64 = 1
    private var bytesAfterBadLine = 0

    init(_ type: CustomerType) {
        self.type = type
    }

    /// Whether there are bad lines and the search for more has ended.
    var isHopeless: Bool {
        badLines.count == Self.maximumBadLines || bytesAfterBadLine > Self.maximumBytesAfterBadLine
    }

    /// Parses a piece, and adds the customers whose lines end in it.
    mutating func read(_ piece: [UInt8], _ customers: inout [Customer]) {
        if !badLines.isEmpty { bytesAfterBadLine += piece.count }
        var rest = piece[...]
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            append(rest[..<end])
            endLine(&customers)
            rest = rest[(end + 1)...]
        }
        append(rest)
    }

    /// Parses the end of the text.
    mutating func end(_ customers: inout [Customer]) { endLine(&customers) }

    private mutating func append(_ bytes: ArraySlice<UInt8>) {
        line += bytes.prefix(Self.maximumLineBytes + 1 - line.count)
    }

    private mutating func endLine(_ customers: inout [Customer]) {
        defer {
            line.removeAll(keepingCapacity: true)
            number += 1
        }
        var bytes = line[...]
        if number == 1, bytes.starts(with: Self.byteOrderMark) { bytes = bytes.dropFirst(Self.byteOrderMark.count) }
        if bytes.last == UInt8(ascii: "\r") { bytes = bytes.dropLast() }
        guard !bytes.isEmpty, !isHopeless else { return }
        do throws(InvalidValue) {
            customers.append(try customer(bytes))
        } catch {
            badLines.append(BadLine(number: number, reason: error.detail ?? "must be \(Self.allowed)"))
        }
    }

    private static let allowed = "a JSON object with id and field, or an id"

    private func customer(_ bytes: ArraySlice<UInt8>) throws(InvalidValue) -> Customer {
        guard bytes.count <= Self.maximumLineBytes else {
            throw InvalidValue("longer than \(Self.maximumLineBytes) bytes")
        }
        let customer: Customer
        if bytes.first == UInt8(ascii: "{") {
            guard let value = try? JSONValue(parsing: bytes.span, maximumDepth: 3) else {
                throw InvalidValue("invalid JSON")
            }
            customer = try Customer.kind.read(value)
        } else {
            customer = Customer(
                id: try Customer.id.read(.string(String(decoding: bytes, as: UTF8.self))),
                field: JSONObject()
            )
        }
        guard type == .phone || customer.userID != nil else { throw InvalidValue("the id is not a user id") }
        return customer
    }

    /// The problem of the bad lines.
    var problem: Problem {
        var faults: [(reason: String, lines: [Int64])] = []
        for line in badLines {
            if let index = faults.firstIndex(where: { $0.reason == line.reason }) {
                faults[index].lines.append(line.number)
            } else {
                faults.append((line.reason, [line.number]))
            }
        }
        let list = faults.map { fault in
            "\(fault.lines.map(String.init).joined(separator: ", ")): \(fault.reason)"
        }
        return Problem(
            of: .invalidLines,
            "Nothing was changed. The first invalid lines: \(list.joined(separator: "; ")).",
            members: ["lines": .array(badLines.map { .integer($0.number) })]
        )
    }
}
