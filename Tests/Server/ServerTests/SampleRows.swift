import CLibpq
import Glibc
import ServiceTesting
import Testing

@testable import Postgres

extension PostgresRows {
    /// Returns a result with the columns of this one, and one row of made-up values.
    ///
    /// - Parameter texts: The values of text columns by their names. All others are empty.
    func withSampleRow(_ texts: [String: String]) throws -> PostgresRows {
        let result = try #require(PQmakeEmptyPGresult(nil, PGRES_TUPLES_OK))
        let names = (0..<columnCount).map { strdup(name(ofColumn: $0)) }
        defer { for name in names { free(name) } }
        var attributes = names.enumerated().map { column, name in
            PGresAttDesc(
                name: name,
                tableid: 0,
                columnid: 0,
                format: 1,
                typid: type(ofColumn: column),
                typlen: -1,
                atttypmod: -1
            )
        }
        try #require(PQsetResultAttrs(result, Int32(columnCount), &attributes) != 0)
        for column in 0..<columnCount {
            var value = try #require(
                Self.sample(type(ofColumn: column), texts[name(ofColumn: column)] ?? ""),
                "no sample of type \(type(ofColumn: column))"
            )
            let length = Int32(value.count)
            let isSet = value.withUnsafeMutableBytes {
                // libpq takes no pointer as NULL.
                var empty: CChar = 0
                let bytes = $0.assumingMemoryBound(to: CChar.self).baseAddress
                return bytes.map { PQsetvalue(result, 0, Int32(column), $0, length) }
                    ?? PQsetvalue(result, 0, Int32(column), &empty, 0)
            }
            try #require(isSet != 0)
        }
        return PostgresRows(owning: result)
    }

    /// The type of a function without a result.
    private static let void: UInt32 = 2278

    /// Returns a value in the binary format of a type; `nil` for an unknown type.
    private static func sample(_ type: UInt32, _ text: String) -> [UInt8]? {
        switch type {
        case TypeOID.bool: [0]
        case TypeOID.int2: [0, 0]
        case TypeOID.int4, TypeOID.float4: [UInt8](repeating: 0, count: 4)
        case TypeOID.int8, TypeOID.float8, TypeOID.timestamptz: [UInt8](repeating: 0, count: 8)
        case TypeOID.uuid: [UInt8](repeating: 0, count: 16)
        case TypeOID.bytea, void: []
        case TypeOID.text, TypeOID.varchar, TypeOID.bpchar, TypeOID.name: Array(text.utf8)
        case TypeOID.json: Array("{}".utf8)
        case TypeOID.jsonb: [1] + Array("{}".utf8)
        // No dimension, no NULL, and the type of the elements.
        case TypeOID.boolArray: array(TypeOID.bool)
        case TypeOID.byteaArray: array(TypeOID.bytea)
        case TypeOID.int4Array: array(TypeOID.int4)
        case TypeOID.textArray: array(TypeOID.text)
        case TypeOID.int8Array: array(TypeOID.int8)
        case TypeOID.float8Array: array(TypeOID.float8)
        case TypeOID.timestamptzArray: array(TypeOID.timestamptz)
        case TypeOID.uuidArray: array(TypeOID.uuid)
        case TypeOID.jsonbArray: array(TypeOID.jsonb)
        default: nil
        }
    }

    private static func array(_ element: UInt32) -> [UInt8] {
        [UInt8](repeating: 0, count: 8) + withUnsafeBytes(of: element.bigEndian, Array.init)
    }
}
