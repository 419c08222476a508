/// Random keys that cannot be guessed.
package enum RandomKey {
    /// Returns `words` times 64 bits from the system's random generator, in hexadecimal.
    package static func hexadecimal(words: Int) -> String {
        bytes(words * 8).hexadecimal
    }

    /// Returns bytes from the system's random generator.
    package static func bytes(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<count).map { _ in generator.next() }
    }
}
