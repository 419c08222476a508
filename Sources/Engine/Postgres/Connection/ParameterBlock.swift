import CLibpq

extension PostgresValue {
    /// The size of the value in its binary format, in bytes.
    fileprivate var byteCount: Int {
        switch storage {
        case .null, .refused: 0
        case .word(_, let byteCount): byteCount
        case .text(let text): text.utf8.count
        case .bytes(let bytes): bytes.count
        }
    }

    /// Writes the value to `start`, where ``byteCount`` bytes are free.
    fileprivate func write(to start: UnsafeMutableRawPointer) {
        switch storage {
        case .null, .refused:
            break
        case .word(let word, let byteCount):
            for index in 0..<byteCount {
                let shifted = word >> UInt64(8 * (byteCount - 1 - index))
                start.storeBytes(of: UInt8(truncatingIfNeeded: shifted), toByteOffset: index, as: UInt8.self)
            }
        case .text(var text):
            text.withUTF8 { write(UnsafeRawBufferPointer($0), to: start) }
        case .bytes(let bytes):
            bytes.withUnsafeBytes { write($0, to: start) }
        }
    }

    private func write(_ bytes: UnsafeRawBufferPointer, to start: UnsafeMutableRawPointer) {
        UnsafeMutableRawBufferPointer(start: start, count: bytes.count).copyMemory(from: bytes)
    }

    fileprivate var isNull: Bool {
        if case .null = storage { true } else { false }
    }
}

/// Parameters in the layout that libpq's `PQsendQuery…` functions expect. Valid during a call.
struct ParameterBlock {
    let count: Int32
    let types: UnsafePointer<Oid>?
    let values: UnsafePointer<UnsafePointer<CChar>?>?
    let lengths: UnsafePointer<Int32>?
    /// The formats of the values: all 1, for binary.
    let formats: UnsafePointer<Int32>?

    /// Passes `body` a block with one buffer for the bytes of all parameters, on the stack while they are few.
    static func with<Result>(_ parameters: [PostgresValue], _ body: (ParameterBlock) -> Result) -> Result {
        let count = parameters.count
        // One extra byte gives an empty value an address too: libpq takes a null pointer for NULL.
        let size = parameters.reduce(1) { $0 + $1.byteCount }
        return withUnsafeTemporaryAllocation(byteCount: size, alignment: 8) { bytes in
            withUnsafeTemporaryAllocation(of: Oid.self, capacity: count) { types in
                withUnsafeTemporaryAllocation(of: UnsafePointer<CChar>?.self, capacity: count) { values in
                    withUnsafeTemporaryAllocation(of: Int32.self, capacity: 2 * count) { numbers in
                        var offset = 0
                        for (index, parameter) in parameters.enumerated() {
                            let length = parameter.byteCount
                            let start = bytes.baseAddress.map { $0 + offset }
                            if let start { parameter.write(to: start) }
                            types.initializeElement(at: index, to: parameter.type)
                            values.initializeElement(
                                at: index,
                                to: parameter.isNull
                                    ? nil : start.map { UnsafePointer($0.assumingMemoryBound(to: CChar.self)) }
                            )
                            numbers.initializeElement(at: index, to: Int32(clamping: length))
                            numbers.initializeElement(at: count + index, to: 1)
                            offset += length
                        }
                        return body(
                            ParameterBlock(
                                count: Int32(count),
                                types: UnsafePointer(types.baseAddress),
                                values: UnsafePointer(values.baseAddress),
                                lengths: UnsafePointer(numbers.baseAddress),
                                formats: numbers.baseAddress.map { UnsafePointer($0 + count) }
                            )
                        )
                    }
                }
            }
        }
    }
}
