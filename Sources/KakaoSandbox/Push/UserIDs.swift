/// Reads user ids: integers from 1 to 2^63-1, digit by digit and never through a floating-point number.
enum UserIDs {
    /// As documented for `uuids`.
    static let maximumCount = 100

    /// One id in plain decimal digits, or `nil`: neither `+5` nor `1.0` nor 2^63 is one.
    static func parseOne(_ text: String) -> Int64? {
        var scanner = Scanner(text)
        guard let id = scanner.number(), scanner.isAtEnd else { return nil }
        return id
    }

    /// A JSON array of ids, each a number or a string, as in `[1, "2"]`; `nil` for anything else.
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
        // An array and an index: a `Substring` shrunk octet by octet took a quarter of a send's time.
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

        /// Digits up to 2^63-1, without a zero in front.
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
