/// Users' ids as `push_parts` holds them: each takes as many bytes as the largest of them does, the first one the highest.
struct UserIDBytes: Sendable, Equatable {
    let bytes: [UInt8]
    /// Bytes of an id, 1 to 8.
    let width: Int

    var count: Int { bytes.count / width }

    /// - Parameter userIDs: None of them negative.
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

    /// As they were read.
    init(bytes: [UInt8], width: Int) {
        (self.bytes, self.width) = (bytes, min(max(1, width), 8))
    }

    /// The users at these places, as far as there are any.
    func ids(_ places: Range<Int>) -> [Int64] {
        bytes.withUnsafeBytes { bytes in
            places.clamped(to: 0..<count).map { place in
                bytes[width * place..<width * (place + 1)].reduce(0) { $0 << 8 | Int64($1) }
            }
        }
    }
}
