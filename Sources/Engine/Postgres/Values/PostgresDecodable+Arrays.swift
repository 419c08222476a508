extension Array: PostgresDecodable where Element: PostgresElement {
    package static func decode(_ cell: PostgresCell) throws(PostgresError) -> [Element] {
        guard !cell.isNull else { throw cell.error("is NULL") }
        return try Element.decodeArray(cell)
    }
}

extension PostgresElement {
    package static func decodeArray(_ cell: PostgresCell) throws(PostgresError) -> [Self] {
        guard let elements = cell.withBytes({ elements(in: $0) }) else {
            throw cell.error("has type \(cell.type), which cannot be read as an array of \(Self.self) without NULLs")
        }
        return elements
    }

    /// Returns the elements of a binary one-dimensional array (`array_send` in `arrayfuncs.c`). Returns `nil` if it is
    /// not one, has elements of another type, or contains NULLs.
    private static func elements(in bytes: UnsafeRawBufferPointer) -> [Self]? {
        guard let dimensions = bytes.bigEndian(at: 0, as: Int32.self),
            let type = bytes.bigEndian(at: 8, as: UInt32.self)
        else { return nil }
        guard dimensions != 0 else { return [] }
        guard dimensions == 1, let count = bytes.bigEndian(at: 12, as: Int32.self), count >= 0 else { return nil }
        var elements: [Self] = []
        // An element takes at least four bytes, so that a false count in the header reserves no more memory than that.
        elements.reserveCapacity(min(Int(count), bytes.count / 4))
        var offset = 20
        for _ in 0..<count {
            guard let length = bytes.bigEndian(at: offset, as: Int32.self), length >= 0 else { return nil }
            let start = offset + 4
            let end = start + Int(length)
            guard end <= bytes.count,
                let element = decode(UnsafeRawBufferPointer(rebasing: bytes[start..<end]), type: type)
            else { return nil }
            elements.append(element)
            offset = end
        }
        return elements
    }
}

/// Decodes `[UInt8]` as PostgreSQL stores bytes: not from an array, but from a `bytea` or the text of a JSON value.
extension UInt8: PostgresElement {
    package static func decode(_ bytes: UnsafeRawBufferPointer, type: UInt32) -> UInt8? {
        nil
    }

    package static func decodeArray(_ cell: PostgresCell) throws(PostgresError) -> [UInt8] {
        switch cell.type {
        case TypeOID.bytea, TypeOID.json: return cell.withBytes { Array($0) }
        case TypeOID.jsonb: return cell.withBytes { Array($0.dropFirst()) }
        default: throw cell.error("has type \(cell.type), which is neither bytea nor JSON")
        }
    }
}
