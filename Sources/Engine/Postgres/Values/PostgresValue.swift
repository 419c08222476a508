package import FoundationEssentials

/// One bound parameter: a type, and NULL or a value in that type's binary format.
///
/// Parameters are always binary (`docs/decisions/0002-binary-parameters.md`). Their types are part of the prepared
/// statement, so that a column of another type needs a cast in the SQL.
package struct PostgresValue: Sendable {
    enum Storage: Sendable {
        case null
        /// Up to eight bytes, in the low end of a word, as a number. They need no allocation.
        case word(UInt64, byteCount: Int)
        case text(String)
        case bytes([UInt8])
        /// A value that PostgreSQL cannot store, and the reason. It is reported when the statement is submitted.
        case refused(String)
    }

    let type: UInt32
    let storage: Storage

    /// A `boolean`.
    package static func bool(_ value: Bool?) -> PostgresValue {
        PostgresValue(type: TypeOID.bool, storage: value.map { .word($0 ? 1 : 0, byteCount: 1) } ?? .null)
    }

    /// An `integer`.
    package static func int32(_ value: Int32?) -> PostgresValue {
        PostgresValue(
            type: TypeOID.int4,
            storage: value.map { .word(UInt64(UInt32(bitPattern: $0)), byteCount: 4) } ?? .null
        )
    }

    /// A `bigint`.
    package static func int64(_ value: Int64?) -> PostgresValue {
        PostgresValue(type: TypeOID.int8, storage: value.map { .word(UInt64(bitPattern: $0), byteCount: 8) } ?? .null)
    }

    /// A `double precision`.
    package static func float64(_ value: Double?) -> PostgresValue {
        PostgresValue(type: TypeOID.float8, storage: value.map { .word($0.bitPattern, byteCount: 8) } ?? .null)
    }

    /// A `text`. If it contains a NUL, the statement is rejected before it is sent
    /// (``PostgresError/Code/invalidParameter``).
    package static func text(_ value: String?) -> PostgresValue {
        PostgresValue(
            type: TypeOID.text,
            storage: value.map { BinaryFormat.containsNUL($0) ? .refused(Self.nulInText) : .text($0) } ?? .null
        )
    }

    /// A `bytea`.
    package static func bytes(_ value: [UInt8]?) -> PostgresValue {
        PostgresValue(type: TypeOID.bytea, storage: value.map { .bytes($0) } ?? .null)
    }

    /// A `uuid`.
    package static func uuid(_ value: UUID?) -> PostgresValue {
        PostgresValue(
            type: TypeOID.uuid,
            storage: value.map { uuid in .bytes(withUnsafeBytes(of: uuid.uuid) { Array($0) }) } ?? .null
        )
    }

    /// A `timestamp with time zone`, to the microsecond.
    package static func timestamp(_ value: Date?) -> PostgresValue {
        guard let value else { return PostgresValue(type: TypeOID.timestamptz, storage: .null) }
        let microseconds = BinaryFormat.microseconds(of: value)
        return PostgresValue(
            type: TypeOID.timestamptz,
            storage: microseconds.map { .word(UInt64(bitPattern: $0), byteCount: 8) } ?? .refused(Self.dateOutOfRange)
        )
    }

    /// A `jsonb`, from the UTF-8 text of a JSON value. The server checks it.
    package static func jsonb(_ value: [UInt8]?) -> PostgresValue {
        PostgresValue(
            type: TypeOID.jsonb,
            storage: value.map { .bytes([BinaryFormat.jsonbVersion] + $0) } ?? .null
        )
    }

    static let nulInText = "a text contains a NUL character"
    static let dateOutOfRange = "a date is outside the range of a timestamp"
}
