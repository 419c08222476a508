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
        PostgresValue(TypeOID.bool, value) { .word($0 ? 1 : 0, byteCount: 1) }
    }

    /// An `integer`.
    package static func int32(_ value: Int32?) -> PostgresValue {
        PostgresValue(TypeOID.int4, value) { .word(UInt64(UInt32(bitPattern: $0)), byteCount: 4) }
    }

    /// A `bigint`.
    package static func int64(_ value: Int64?) -> PostgresValue {
        PostgresValue(TypeOID.int8, value) { .word(UInt64(bitPattern: $0), byteCount: 8) }
    }

    /// A `double precision`.
    package static func float64(_ value: Double?) -> PostgresValue {
        PostgresValue(TypeOID.float8, value) { .word($0.bitPattern, byteCount: 8) }
    }

    /// A `text`. If it contains a NUL, the statement is rejected before it is sent
    /// (``PostgresError/Code/invalidParameter``).
    package static func text(_ value: String?) -> PostgresValue {
        PostgresValue(TypeOID.text, value) { BinaryFormat.containsNUL($0) ? .refused(nulInText) : .text($0) }
    }

    /// A `bytea`.
    package static func bytes(_ value: [UInt8]?) -> PostgresValue {
        PostgresValue(TypeOID.bytea, value) { .bytes($0) }
    }

    /// A `uuid`.
    package static func uuid(_ value: UUID?) -> PostgresValue {
        PostgresValue(TypeOID.uuid, value) { uuid in .bytes(withUnsafeBytes(of: uuid.uuid) { Array($0) }) }
    }

    /// A `timestamp with time zone`, to the microsecond.
    package static func timestamp(_ value: Date?) -> PostgresValue {
        PostgresValue(TypeOID.timestamptz, value) { date in
            guard let microseconds = BinaryFormat.microseconds(of: date) else { return .refused(dateOutOfRange) }
            return .word(UInt64(bitPattern: microseconds), byteCount: 8)
        }
    }

    /// A `jsonb`, from the UTF-8 text of a JSON value. The server checks it.
    package static func jsonb(_ value: [UInt8]?) -> PostgresValue {
        PostgresValue(TypeOID.jsonb, value) { .bytes([BinaryFormat.jsonbVersion] + $0) }
    }

    static let nulInText = "a text contains a NUL character"
    static let dateOutOfRange = "a date is outside the range of a timestamp"
}

extension PostgresValue {
    /// Creates NULL, or the value that `storage` returns.
    @inline(__always)
    private init<Value>(_ type: UInt32, _ value: Value?, _ storage: (Value) -> Storage) {
        self.init(type: type, storage: value.map(storage) ?? .null)
    }
}
