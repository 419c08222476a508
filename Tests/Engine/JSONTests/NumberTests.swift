import JSON
import Testing

@Suite("Numbers")
struct NumberTests {
    @Test(
        "A number that is written as an integer and fits is an integer",
        arguments: [
            ("0", 0), ("-0", 0), ("7", 7), ("-7", -7), ("10", 10), ("1234567890123456789", 1_234_567_890_123_456_789),
            ("9223372036854775807", .max), ("-9223372036854775807", -.max), ("-9223372036854775808", .min),
            // A double cannot distinguish this integer from the one below it.
            ("9007199254740993", 9_007_199_254_740_993),
        ] as [(String, Int64)]
    )
    func integers(text: String, integer: Int64) throws {
        #expect(JSONNumber(text)?.int64 == integer)
        #expect(try JSONValue(parsing: text).integer == integer)
    }

    @Test(
        "A number with a fraction or an exponent, or one that does not fit, is not an integer",
        arguments: [
            "1.0", "0.0", "-0.0", "1e0", "1E3", "1e-0", "10e-1", "9223372036854775808", "-9223372036854775809",
            "18446744073709551615",
            "92233720368547758070", "100000000000000000000000000000",
        ]
    )
    func notIntegers(text: String) throws {
        #expect(JSONNumber(text) != nil)
        #expect(JSONNumber(text)?.int64 == nil)
        #expect(try JSONValue(parsing: text).integer == nil)
    }

    @Test("A string of digits is not an integer")
    func stringOfDigits() {
        #expect(JSONValue.string("5").integer == nil)
        #expect(JSONValue.string("5").number == nil)
    }

    @Test("Integers of every width become numbers with the same digits")
    func fromIntegers() {
        #expect(JSONNumber(Int64.max).text == "9223372036854775807")
        #expect(JSONNumber(Int64.min).text == "-9223372036854775808")
        #expect(JSONNumber(Int64.min).int64 == .min)
        #expect(JSONNumber(UInt64.max).text == "18446744073709551615")
        #expect(JSONNumber(UInt8(5)) == JSONNumber("5"))
        #expect(JSONValue.integer(-3) == -3)
    }

    @Test("A double becomes a number that parses back to it; infinity and NaN become nil")
    func fromDoubles() {
        for value in [0.1, 12.5, -0.0, 1e22, .leastNonzeroMagnitude, .greatestFiniteMagnitude, 2.5e-7, 123456789.125] {
            let number = JSONNumber(value)
            #expect(number.flatMap { Double($0.text) } == value)
            #expect(number.flatMap { JSONNumber($0.text) } == number)
        }
        #expect(JSONNumber(Double.infinity) == nil)
        #expect(JSONNumber(-Double.infinity) == nil)
        #expect(JSONNumber(Double.nan) == nil)
    }

    @Test("Numbers are equal if their texts are equal")
    func equality() {
        #expect(JSONNumber("1.0") != JSONNumber("1"))
        #expect(JSONNumber("1e2") != JSONNumber("1E2"))
        #expect(JSONNumber("1.50") == JSONNumber("1.50"))
    }

    @Test(
        "A text with anything besides one number is not a number",
        arguments: ["", " 1", "1 ", "1\n", "0 0", "-", "1,", "\"1\"", "null", "[1]", "1\0"]
    )
    func wholeText(text: String) {
        #expect(JSONNumber(text) == nil)
    }
}
