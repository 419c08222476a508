/// User ids in the format of `push_parts`: big-endian, each with as many bytes as the largest needs.
struct UserIDBytes: Sendable, Equatable {
    let bytes: [UInt8]
    /// The number of bytes of an id, 1 to 8.
    let width: Int

    var count: Int { bytes.count / width }

    /// - Parameter userIDs: Ids that are not negative.
    init(_ userIDs: [Int64]) {
        let width = max(1, 8 - (userIDs.max() ?? 0).leadingZeroBitCount / 8)
        self.width = width
        bytes = [UInt8](unsafeUninitializedCapacity: width * userIDs.count) { bytes, count in
            for id in userIDs {
                for place in stride(from: 8 * (width - 1), through: 0, by: -8) {
                    bytes[count] = UInt8(truncatingIfNeeded: id >> place)
                    count += 1
                }
            }
        }
    }

    /// Creates the ids from stored bytes.
    init(bytes: [UInt8], width: Int) {
        (self.bytes, self.width) = (bytes, min(max(1, width), 8))
    }

    /// Returns the ids at these places, without places beyond the end.
    func ids(_ places: Range<Int>) -> [Int64] {
        bytes.withUnsafeBytes { bytes in
            places.clamped(to: 0..<count).map { place in
                bytes[width * place..<width * (place + 1)].reduce(0) { $0 << 8 | Int64($1) }
            }
        }
    }
}
