/// Users' ids as `push_parts` holds them: eight bytes each, the first one the highest.
enum UserIDBytes {
    static func encoded(_ userIDs: [Int64]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: 8 * userIDs.count) { bytes, count in
            let bytes = UnsafeMutableRawBufferPointer(bytes)
            for id in userIDs {
                bytes.storeBytes(of: id.bigEndian, toByteOffset: count, as: Int64.self)
                count += 8
            }
        }
    }

    static func decoded(_ bytes: ArraySlice<UInt8>) -> [Int64] {
        bytes.withUnsafeBytes { bytes in
            (0..<bytes.count / 8).map { Int64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8 * $0, as: Int64.self)) }
        }
    }
}
