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
        private var rest: Substring.UTF8View

        init(_ text: String) {
            rest = Substring(text).utf8
        }

        var isAtEnd: Bool { rest.isEmpty }

        mutating func take(_ octet: UInt8) -> Bool {
            guard rest.first == octet else { return false }
            rest.removeFirst()
            return true
        }

        mutating func skipSpace() {
            while let octet = rest.first, [0x20, 0x09, 0x0A, 0x0D].contains(octet) { rest.removeFirst() }
        }

        /// Digits up to 2^63-1, without a zero in front.
        mutating func number() -> Int64? {
            guard rest.first != UInt8(ascii: "0") else { return nil }
            var value: Int64 = 0
            while let octet = rest.first, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(octet) {
                let (tens, overflowed) = value.multipliedReportingOverflow(by: 10)
                let (sum, exceeded) = tens.addingReportingOverflow(Int64(octet - UInt8(ascii: "0")))
                guard !overflowed, !exceeded else { return nil }
                value = sum
                rest.removeFirst()
            }
            return value > 0 ? value : nil
        }
    }
}
