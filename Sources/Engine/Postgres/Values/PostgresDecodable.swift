package import FoundationEssentials

/// A type that a column can be decoded as.
///
/// These are `Bool`, `Int32`, `Int64`, `Double`, `String`, `[UInt8]`, `UUID` and `Date`; an `Optional` of each, for
/// columns that may be NULL; and arrays of them without NULLs. Other types decode through one of these.
package protocol PostgresDecodable {
    /// Decodes `cell`.
    ///
    /// - Throws: ``PostgresError/Code/decoding`` for a column of another type and for NULL.
    static func decode(_ cell: PostgresCell) throws(PostgresError) -> Self
}

/// A column that is decoded later, because decoding it takes long.
extension PostgresCell: PostgresDecodable {
    package static func decode(_ cell: PostgresCell) -> PostgresCell { cell }

    /// - Throws: As ``PostgresRow/decode(_:)``.
    package func decode<Value: PostgresDecodable>(_ type: Value.Type) throws(PostgresError) -> Value {
        try type.decode(self)
    }
}

extension Optional: PostgresDecodable where Wrapped: PostgresDecodable {
    package static func decode(_ cell: PostgresCell) throws(PostgresError) -> Wrapped? {
        cell.isNull ? nil : try Wrapped.decode(cell)
    }
}

/// A type with one or more binary formats, for columns and for array elements.
package protocol PostgresElement: PostgresDecodable {
    /// Returns the value of `bytes` in the binary format of `type`; `nil` if they are not such a value.
    static func decode(_ bytes: UnsafeRawBufferPointer, type: UInt32) -> Self?

    /// Decodes the array in `cell`, or PostgreSQL's equivalent of it (`bytea` for bytes).
    ///
    /// - Throws: ``PostgresError/Code/decoding``.
    static func decodeArray(_ cell: PostgresCell) throws(PostgresError) -> [Self]
}

extension PostgresElement {
    package static func decode(_ cell: PostgresCell) throws(PostgresError) -> Self {
        guard !cell.isNull else { throw cell.error("is NULL") }
        guard let value = cell.withBytes({ Self.decode($0, type: cell.type) }) else {
            throw cell.error("has type \(cell.type), which cannot be read as \(Self.self)")
        }
        return value
    }
}

extension Bool: PostgresElement {
    package static func decode(_ bytes: UnsafeRawBufferPointer, type: UInt32) -> Bool? {
        type == TypeOID.bool && bytes.count == 1 ? bytes[0] != 0 : nil
    }
}

extension Int32: PostgresElement {
    package static func decode(_ bytes: UnsafeRawBufferPointer, type: UInt32) -> Int32? {
        switch type {
        case TypeOID.int4: bytes.bigEndian()
        case TypeOID.int2: bytes.bigEndian(as: Int16.self).map(Int32.init)
        default: nil
        }
    }
}

extension Int64: PostgresElement {
    package static func decode(_ bytes: UnsafeRawBufferPointer, type: UInt32) -> Int64? {
        switch type {
        case TypeOID.int8: bytes.bigEndian()
        default: Int32.decode(bytes, type: type).map(Int64.init)
        }
    }
}

extension Double: PostgresElement {
    package static func decode(_ bytes: UnsafeRawBufferPointer, type: UInt32) -> Double? {
        switch type {
        case TypeOID.float8: bytes.bigEndian().map(Double.init(bitPattern:))
        case TypeOID.float4: bytes.bigEndian().map { Double(Float(bitPattern: $0)) }
        default: nil
        }
    }
}

extension String: PostgresElement {
    package static func decode(_ bytes: UnsafeRawBufferPointer, type: UInt32) -> String? {
        switch type {
        case TypeOID.text, TypeOID.varchar, TypeOID.bpchar, TypeOID.name, TypeOID.json:
            String(validating: bytes, as: UTF8.self)
        case TypeOID.jsonb:
            bytes.first == BinaryFormat.jsonbVersion ? String(validating: bytes.dropFirst(), as: UTF8.self) : nil
        default: nil
        }
    }
}

extension UUID: PostgresElement {
    package static func decode(_ bytes: UnsafeRawBufferPointer, type: UInt32) -> UUID? {
        guard type == TypeOID.uuid, bytes.count == MemoryLayout<uuid_t>.size else { return nil }
        return UUID(uuid: bytes.loadUnaligned(as: uuid_t.self))
    }
}

extension Date {
    /// The time rounded to microseconds, as a `timestamptz` stores it.
    package var asStored: Date { BinaryFormat.microseconds(of: self).map(BinaryFormat.date(microseconds:)) ?? self }
}

extension Date: PostgresElement {
    package static func decode(_ bytes: UnsafeRawBufferPointer, type: UInt32) -> Date? {
        type == TypeOID.timestamptz ? bytes.bigEndian().map(BinaryFormat.date(microseconds:)) : nil
    }
}
