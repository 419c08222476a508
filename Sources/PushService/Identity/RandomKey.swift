/// Keys that nobody can guess.
package enum RandomKey {
    /// So many times 64 bits from the system's generator, in hexadecimal.
    package static func hexadecimal(words: Int) -> String {
        var generator = SystemRandomNumberGenerator()
        return (0..<words).map { _ in
            let digits = String(generator.next() as UInt64, radix: 16)
            return String(repeating: "0", count: 16 - digits.utf8.count) + digits
        }.joined()
    }
}
