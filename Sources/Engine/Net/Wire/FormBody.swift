/// A form body, `application/x-www-form-urlencoded` (WHATWG URL, §5.2).
///
/// Every byte that is not unreserved (RFC 3986 §2.3) is percent-encoded, including a space, because decoders differ
/// about `+`. JSON text is encoded like any other value.
package struct FormBody: Sendable {
    /// The value of `Content-Type` for this body.
    package static let contentType = "application/x-www-form-urlencoded;charset=utf-8"

    /// The encoded form.
    package private(set) var bytes: [UInt8] = []

    package init() {}

    /// Adds a field. A name may be added more than once.
    package mutating func append(_ name: String, _ value: String) {
        appendName(name)
        var value = value
        value.withUTF8 { appendEncoded($0) }
    }

    /// Adds a field with a value that is UTF-8 already.
    package mutating func append(_ name: String, utf8 value: [UInt8]) {
        appendName(name)
        value.withUnsafeBufferPointer { appendEncoded($0) }
    }

    /// Adds a field with a value that is percent-encoded already.
    package mutating func append(_ name: String, encoded value: [UInt8]) {
        appendName(name)
        bytes += value
    }

    /// Adds the fields of another form without encoding them again. A part that is sent often needs to be encoded only
    /// once.
    package mutating func append(_ other: FormBody) {
        if !bytes.isEmpty && !other.bytes.isEmpty { bytes.append(UInt8(ascii: "&")) }
        bytes += other.bytes
    }

    private mutating func appendName(_ name: String) {
        if !bytes.isEmpty { bytes.append(UInt8(ascii: "&")) }
        var name = name
        name.withUTF8 { appendEncoded($0) }
        bytes.append(UInt8(ascii: "="))
    }

    private mutating func appendEncoded(_ text: UnsafeBufferPointer<UInt8>) {
        bytes += [UInt8](unsafeUninitializedCapacity: 3 * text.count) { output, count in
            for byte in text {
                if Self.isUnreserved(byte) {
                    output[count] = byte
                    count += 1
                } else {
                    output[count] = UInt8(ascii: "%")
                    output[count + 1] = Self.digit(byte >> 4)
                    output[count + 2] = Self.digit(byte & 15)
                    count += 3
                }
            }
        }
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
            true
        default:
            false
        }
    }

    /// Returns the digit of a value from 0 to 15, in capitals (RFC 3986 §2.1).
    private static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "A") + value - 10
    }
}
