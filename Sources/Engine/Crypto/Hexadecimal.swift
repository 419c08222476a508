extension Sequence<UInt8> {
    /// The bytes as two hexadecimal digits each.
    package var hexadecimal: String {
        map { byte in
            let digits = String(byte, radix: 16)
            return byte < 16 ? "0\(digits)" : digits
        }.joined()
    }
}
