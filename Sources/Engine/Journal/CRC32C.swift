/// The CRC-32C checksum of iSCSI and ext4 (Castagnoli; RFC 3720 §B.4), which detects every burst error of up to 32
/// bits.
enum CRC32C {
    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index)) { value, _ in value & 1 == 1 ? value >> 1 ^ 0x82F6_3B78 : value >> 1 }
    }

    /// Returns the checksum of the bytes whose checksum is `previous`, followed by `bytes`.
    static func checksum(_ bytes: some Sequence<UInt8>, after previous: UInt32 = 0) -> UInt32 {
        table.withUnsafeBufferPointer { table in
            ~bytes.reduce(~previous) { value, byte in value >> 8 ^ table[Int(UInt8(truncatingIfNeeded: value) ^ byte)] }
        }
    }
}
