import Testing

@testable import Net

@Suite("Characters and scans")
struct OctetsTests {
    @Test("A token consists of letters, digits and fifteen marks only")
    func tokens() {
        let expected = Set(
            "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".utf8
        )
        let actual = Set((UInt8.min...UInt8.max).filter(Octets.isToken))
        #expect(actual == expected)
    }

    @Test("A registered name consists of letters, digits and sixteen marks only")
    func registeredNames() {
        let expected = Set("!$%&'()*+,-.;=_~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".utf8)
        #expect(Set((UInt8.min...UInt8.max).filter(Octets.isRegName)) == expected)
    }

    @Test("A field value may contain tab, space, visible characters and bytes above 127 only")
    func fieldContent() {
        let actual = Set((UInt8.min...UInt8.max).filter(Octets.isFieldContent))
        #expect(actual == Set([0x09] + Array(0x20...0x7E) + Array(0x80...0xFF)))
    }

    @Test("Hexadecimal digits are recognized in either case, and no other characters")
    func hexDigits() {
        for octet in UInt8.min...UInt8.max {
            let text = String(UnicodeScalar(octet))
            let isDigit = "0123456789abcdefABCDEF".contains(text)
            #expect(Octets.hexDigit(octet) == (isDigit ? Int(text, radix: 16) : nil))
        }
    }

    @Test(
        "A number on the wire consists of digits only and fits in 63 bits",
        arguments: [
            ("0", 0), ("7", 7), ("007", 7), ("9223372036854775807", Int.max), ("9223372036854775808", nil),
            ("18446744073709551616", nil), ("", nil), ("+5", nil), ("-5", nil), (" 5", nil), ("5 ", nil), ("0x5", nil),
            ("5,5", nil), ("1e3", nil), ("５", nil), ("٥", nil),
        ] as [(String, Int?)]
    )
    func decimals(text: String, value: Int?) {
        let parsed = Array(text.utf8).withUnsafeBytes { $0.decimal(in: 0..<$0.count) }
        #expect(parsed == value)
    }
}
