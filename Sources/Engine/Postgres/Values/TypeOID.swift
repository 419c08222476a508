/// The object ids of PostgreSQL's built-in types (`pg_type.dat`). They never change.
enum TypeOID {
    static let bool: UInt32 = 16
    static let bytea: UInt32 = 17
    static let name: UInt32 = 19
    static let int8: UInt32 = 20
    static let int2: UInt32 = 21
    static let int4: UInt32 = 23
    static let text: UInt32 = 25
    static let json: UInt32 = 114
    static let float4: UInt32 = 700
    static let float8: UInt32 = 701
    static let bpchar: UInt32 = 1042
    static let varchar: UInt32 = 1043
    static let timestamptz: UInt32 = 1184
    static let uuid: UInt32 = 2950
    static let jsonb: UInt32 = 3802

    static let boolArray: UInt32 = 1000
    static let byteaArray: UInt32 = 1001
    static let int4Array: UInt32 = 1007
    static let textArray: UInt32 = 1009
    static let int8Array: UInt32 = 1016
    static let float8Array: UInt32 = 1022
    static let timestamptzArray: UInt32 = 1185
    static let uuidArray: UInt32 = 2951
    static let jsonbArray: UInt32 = 3807
}
