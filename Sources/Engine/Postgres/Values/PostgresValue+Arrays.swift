package import FoundationEssentials

// Arrays carry many rows in one statement: `INSERT … SELECT * FROM unnest($1, $2)`. Their elements may be NULL.
extension PostgresValue {
    /// A `boolean[]`.
    package static func bools(_ values: [Bool?]) -> PostgresValue {
        array(TypeOID.boolArray, of: TypeOID.bool, values, width: 1) { $1.append($0 ? 1 : 0) }
    }

    /// An `integer[]`.
    package static func int32s(_ values: [Int32?]) -> PostgresValue {
        array(TypeOID.int4Array, of: TypeOID.int4, values, width: 4) { $1.appendBigEndian($0) }
    }

    /// A `bigint[]`.
    package static func int64s(_ values: [Int64?]?) -> PostgresValue {
        guard let values else { return PostgresValue(type: TypeOID.int8Array, storage: .null) }
        return array(TypeOID.int8Array, of: TypeOID.int8, values, width: 8) { $1.appendBigEndian($0) }
    }

    /// A `double precision[]`.
    package static func float64s(_ values: [Double?]) -> PostgresValue {
        array(TypeOID.float8Array, of: TypeOID.float8, values, width: 8) { $1.appendBigEndian($0.bitPattern) }
    }

    /// A `text[]`. If an element contains a NUL, the statement is rejected before it is sent
    /// (``PostgresError/Code/invalidParameter``).
    package static func texts(_ values: [String?]) -> PostgresValue {
        guard !values.contains(where: { $0.map(BinaryFormat.containsNUL) ?? false }) else {
            return PostgresValue(type: TypeOID.textArray, storage: .refused(nulInText))
        }
        return array(TypeOID.textArray, of: TypeOID.text, values, width: nil) { $1.append(contentsOf: $0.utf8) }
    }

    /// A `text[]` of array literals, each to be cast to `text[]`. Arrays of different lengths cannot form an array of
    /// arrays, and `unnest` would flatten it (PostgreSQL manual, "Array Value Input").
    package static func textArrayLiterals(_ values: [[String]]) -> PostgresValue {
        texts(values.map { "{" + $0.map(quoted).joined(separator: ",") + "}" })
    }

    private static func quoted(_ element: String) -> String {
        var text = "\""
        for character in element.unicodeScalars {
            if character == "\"" || character == "\\" { text.append("\\") }
            text.unicodeScalars.append(character)
        }
        return text + "\""
    }

    /// A `bytea[]`.
    package static func byteas(_ values: [[UInt8]?]) -> PostgresValue {
        array(TypeOID.byteaArray, of: TypeOID.bytea, values, width: nil) { $1.append(contentsOf: $0) }
    }

    /// A `uuid[]`.
    package static func uuids(_ values: [UUID?]) -> PostgresValue {
        array(TypeOID.uuidArray, of: TypeOID.uuid, values, width: 16) { uuid, bytes in
            withUnsafeBytes(of: uuid.uuid) { bytes.append(contentsOf: $0) }
        }
    }

    /// A `timestamp with time zone[]`.
    package static func timestamps(_ values: [Date?]) -> PostgresValue {
        let microseconds = values.map { $0.map(BinaryFormat.microseconds(of:)) }
        guard !microseconds.contains(.some(nil)) else {
            return PostgresValue(type: TypeOID.timestamptzArray, storage: .refused(dateOutOfRange))
        }
        return array(TypeOID.timestamptzArray, of: TypeOID.timestamptz, microseconds.map { $0 ?? nil }, width: 8) {
            $1.appendBigEndian($0)
        }
    }

    /// A `jsonb[]`. Each element is the UTF-8 text of a JSON value.
    package static func jsonbs(_ values: [[UInt8]?]) -> PostgresValue {
        array(TypeOID.jsonbArray, of: TypeOID.jsonb, values, width: nil) { json, bytes in
            bytes.append(BinaryFormat.jsonbVersion)
            bytes.append(contentsOf: json)
        }
    }

    /// Returns the binary format of a one-dimensional array (`array_send` in `arrayfuncs.c`).
    ///
    /// It consists of the number of dimensions, whether there are NULLs, the element type, and the dimension's length
    /// and lower bound. Then each element follows its length, which is -1 for NULL.
    ///
    /// - Parameter width: The size of an element in bytes, if all have the same size.
    private static func array<Element>(
        _ type: UInt32,
        of elementType: UInt32,
        _ values: [Element?],
        width: Int?,
        append: (Element, inout [UInt8]) -> Void
    ) -> PostgresValue {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(20 + values.count * (4 + (width ?? 16)))
        let hasNulls = values.contains { $0 == nil }
        bytes.appendBigEndian(Int32(values.isEmpty ? 0 : 1))
        bytes.appendBigEndian(Int32(hasNulls ? 1 : 0))
        bytes.appendBigEndian(elementType)
        guard !values.isEmpty else { return PostgresValue(type: type, storage: .bytes(bytes)) }
        bytes.appendBigEndian(Int32(clamping: values.count))
        bytes.appendBigEndian(Int32(1))
        for value in values {
            guard let value else {
                bytes.appendBigEndian(Int32(-1))
                continue
            }
            let start = bytes.count
            bytes.appendBigEndian(Int32(0))
            append(value, &bytes)
            let length = UInt32(truncatingIfNeeded: bytes.count - start - 4)
            for shift in 0..<4 { bytes[start + shift] = UInt8(truncatingIfNeeded: length >> UInt32(24 - 8 * shift)) }
        }
        return PostgresValue(type: type, storage: .bytes(bytes))
    }
}
