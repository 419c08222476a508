/// A recursive parser of the grammar of RFC 8259: values, arrays and objects.
///
/// Valid only as long as the bytes passed to its initializer.
struct JSONParser {
    private var scanner: JSONScanner
    /// The number of arrays and objects that may still be opened.
    private var depthLeft: Int

    init(_ bytes: UnsafeRawBufferPointer, maximumDepth: Int) {
        scanner = JSONScanner(bytes)
        depthLeft = maximumDepth
    }

    /// Parses a text with one value, surrounded by nothing but white space.
    mutating func document() throws(JSONError) -> JSONValue {
        scanner.skipWhiteSpace()
        let value = try value()
        scanner.skipWhiteSpace()
        guard scanner.isAtEnd else { throw scanner.error("expected the end of the text") }
        return value
    }

    private mutating func value() throws(JSONError) -> JSONValue {
        switch scanner.peek {
        case UInt8(ascii: "\""):
            return .string(try scanner.string())
        case UInt8(ascii: "{"):
            return .object(try object())
        case UInt8(ascii: "["):
            return .array(try array())
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            return .number(try scanner.number())
        case UInt8(ascii: "t"):
            try scanner.word("true")
            return .bool(true)
        case UInt8(ascii: "f"):
            try scanner.word("false")
            return .bool(false)
        case UInt8(ascii: "n"):
            try scanner.word("null")
            return .null
        default:
            throw scanner.error("expected a value")
        }
    }

    private mutating func array() throws(JSONError) -> [JSONValue] {
        try open()
        var elements: [JSONValue] = []
        if scanner.skip(UInt8(ascii: "]")) {
            depthLeft += 1
            return elements
        }
        while true {
            elements.append(try value())
            scanner.skipWhiteSpace()
            if scanner.skip(UInt8(ascii: ",")) {
                scanner.skipWhiteSpace()
            } else if scanner.skip(UInt8(ascii: "]")) {
                depthLeft += 1
                return elements
            } else {
                throw scanner.error("expected ',' or ']'")
            }
        }
    }

    private mutating func object() throws(JSONError) -> JSONObject {
        try open()
        var object = JSONObject()
        if scanner.skip(UInt8(ascii: "}")) {
            depthLeft += 1
            return object
        }
        while true {
            let nameOffset = scanner.offset
            guard scanner.peek == UInt8(ascii: "\"") else { throw scanner.error("expected a member name") }
            let name = try scanner.string()
            scanner.skipWhiteSpace()
            guard scanner.skip(UInt8(ascii: ":")) else { throw scanner.error("expected ':'") }
            scanner.skipWhiteSpace()
            guard object.append(name, try value()) else {
                throw JSONError(offset: nameOffset, message: "duplicate member name")
            }
            scanner.skipWhiteSpace()
            if scanner.skip(UInt8(ascii: ",")) {
                scanner.skipWhiteSpace()
            } else if scanner.skip(UInt8(ascii: "}")) {
                depthLeft += 1
                return object
            } else {
                throw scanner.error("expected ',' or '}'")
            }
        }
    }

    /// Skips the bracket that opens an array or an object, and the white space after it.
    private mutating func open() throws(JSONError) {
        guard depthLeft > 0 else { throw scanner.error("nested too deeply") }
        depthLeft -= 1
        scanner.advance()
        scanner.skipWhiteSpace()
    }
}
