/// Base64 with the URL-safe alphabet and without padding, as in JSON Web Tokens (RFC 4648 §5, RFC 7515 §2).
package enum Base64URL {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    /// Encodes octets.
    package static func encode(_ octets: [UInt8]) -> String {
        var text: [UInt8] = []
        var bits: UInt32 = 0
        var count = 0
        for octet in octets {
            bits = bits << 8 | UInt32(octet)
            count += 8
            while count >= 6 {
                count -= 6
                text.append(alphabet[Int(bits >> UInt32(count) & 0x3F)])
            }
            bits &= 1 << UInt32(count) - 1
        }
        if count > 0 { text.append(alphabet[Int(bits << UInt32(6 - count) & 0x3F)]) }
        return String(decoding: text, as: UTF8.self)
    }

    /// Decodes a text. Returns `nil` for any other character, and for leftover bits that are not zero, so that each
    /// sequence of octets has only one spelling.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        var octets: [UInt8] = []
        octets.reserveCapacity(text.count * 3 / 4)
        var bits: UInt32 = 0
        var count = 0
        for character in text {
            guard let value = value(character) else { return nil }
            bits = bits << 6 | UInt32(value)
            count += 6
            if count >= 8 {
                count -= 8
                octets.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
                bits &= 1 << UInt32(count) - 1
            }
        }
        // Six leftover bits are an incomplete octet. Two or four are the unused end of the last character.
        guard count < 6, bits == 0 else { return nil }
        return octets
    }

    private static func value(_ character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): character - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): character - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0") + 52
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
