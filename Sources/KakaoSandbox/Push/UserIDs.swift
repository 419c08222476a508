/// A parser of user ids: integers from 1 to 2^63-1. It parses digit by digit, never through a floating-point number.
enum UserIDs {
    /// The documented limit of `uuids`.
    static let maximumCount = 100

    /// Parses one id in plain decimal digits. Returns `nil` for anything else, such as `+5`, `1.0` or 2^63.
    static func parseOne(_ text: String) -> Int64? {
        var scanner = Scanner(text)
        guard let id = scanner.number(), scanner.isAtEnd else { return nil }
        return id
    }

    /// Parses a JSON array of ids, each a number or a string, such as `[1, "2"]`. Returns `nil` for anything else.
    static func parseList(_ text: String) -> [Int64]? {
        var scanner = Scanner(text)
        scanner.skipSpace()
        guard scanner.take(UInt8(ascii: "[")) else { return nil }
        var ids: [Int64] = []
        scanner.skipSpace()
        var isOpen = !scanner.take(UInt8(ascii: "]"))
        while isOpen {
            scanner.skipSpace()
            let isQuoted = scanner.take(UInt8(ascii: "\""))
            guard let id = scanner.number(), scanner.take(UInt8(ascii: "\"")) == isQuoted else { return nil }
            ids.append(id)
            scanner.skipSpace()
            isOpen = scanner.take(UInt8(ascii: ","))
            guard isOpen || scanner.take(UInt8(ascii: "]")) else { return nil }
        }
        scanner.skipSpace()
        return scanner.isAtEnd ? ids : nil
    }

    private struct Scanner {
        // An array and an index, because consuming a `Substring` octet by octet took a quarter of a send's time.
        private let octets: [UInt8]
        private var index = 0

        init(_ text: String) {
            octets = Array(text.utf8)
        }

        var isAtEnd: Bool { index == octets.count }

        private var next: UInt8? { index < octets.count ? octets[index] : nil }

        mutating func take(_ octet: UInt8) -> Bool {
            guard next == octet else { return false }
            index += 1
            return true
        }

        mutating func skipSpace() {
            while let octet = next, octet == 0x20 || octet == 0x09 || octet == 0x0A || octet == 0x0D { index += 1 }
        }

        /// Consumes a number from 1 to 2^63-1 without leading zeros. Returns `nil` if there is none.
        mutating func number() -> Int64? {
            guard next != UInt8(ascii: "0") else { return nil }
            var value: Int64 = 0
            while let octet = next, octet >= UInt8(ascii: "0"), octet <= UInt8(ascii: "9") {
                let (tens, overflowed) = value.multipliedReportingOverflow(by: 10)
                let (sum, exceeded) = tens.addingReportingOverflow(Int64(octet - UInt8(ascii: "0")))
                guard !overflowed, !exceeded else { return nil }
                value = sum
                index += 1
            }
            return value > 0 ? value : nil
        }
    }
}
