/// Random keys that cannot be guessed.
package enum RandomKey {
    /// Returns `words` times 64 bits from the system's random generator, in hexadecimal.
    package static func hexadecimal(words: Int) -> String {
        var generator = SystemRandomNumberGenerator()
        return (0..<words).map { _ in
            let digits = String(generator.next() as UInt64, radix: 16)
            return String(repeating: "0", count: 16 - digits.utf8.count) + digits
        }.joined()
    }

    /// Returns bytes from the system's random generator.
    package static func bytes(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<count).map { _ in generator.next() }
    }
}
