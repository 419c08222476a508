import FoundationEssentials
import Postgres
import TestSupport
import Testing

/// Values of every type are sent to the server and returned unchanged.
@Suite struct RoundTripTests {
    private static let texts = [
        "", "plain", "it's \"quoted\"", "{curly},\\back\\", "two\nlines\r\n\ttab", "카카오 푸시 🎉", "NULL",
    ]

    @Test("Numbers at the limits of their ranges, booleans and NULL")
    func numbers() async throws {
        try await TestDatabase.withPool { pool, _ in
            for value in [Int64.min, -1, 0, 1, .max] as [Int64?] + [nil] {
                let received = try await pool.value(Int64?.self, "SELECT $1", [.int64(value)])
                #expect(received == value)
            }
            for value in [Int32.min, -1, 0, .max] as [Int32?] + [nil] {
                let received = try await pool.value(Int32?.self, "SELECT $1", [.int32(value)])
                #expect(received == value)
            }
            for value in [-Double.greatestFiniteMagnitude, -0.5, 0, .infinity] as [Double?] + [nil] {
                let received = try await pool.value(Double?.self, "SELECT $1", [.float64(value)])
                #expect(received == value)
            }
            for value in [true, false, nil] as [Bool?] {
                let received = try await pool.value(Bool?.self, "SELECT $1", [.bool(value)])
                #expect(received == value)
            }
        }
    }

    @Test("Texts with quotes, newlines, braces and Korean, bytes of every value, and NULL")
    func textsAndBytes() async throws {
        try await TestDatabase.withPool { pool, _ in
            for value in Self.texts + [nil] as [String?] {
                let received = try await pool.value(String?.self, "SELECT $1", [.text(value)])
                #expect(received == value)
            }
            for value in [[], Array(0...255), nil] as [[UInt8]?] {
                let received = try await pool.value([UInt8]?.self, "SELECT $1", [.bytes(value)])
                #expect(received == value)
            }
            let long = String(repeating: "가", count: 1_000_000)
            #expect(try await pool.value(String.self, "SELECT $1", [.text(long)]) == long)
        }
    }

    @Test("UUIDs, times to the microsecond, JSON and NULL")
    func others() async throws {
        try await TestDatabase.withPool { pool, _ in
            for value in [UUID(), nil] as [UUID?] {
                let received = try await pool.value(UUID?.self, "SELECT $1", [.uuid(value)])
                #expect(received == value)
            }
            let dates = [0, -62_000_000_000, 978_307_200, 1_700_000_000.123456].map { Date(timeIntervalSince1970: $0) }
            for value in dates {
                let row = try #require(
                    try await pool.read("SELECT $1, extract(epoch FROM $1)::float8", [.timestamp(value)]).first
                )
                let (date, seconds) = try row.decode(Date.self, Double.self)
                #expect(abs(date.timeIntervalSince(value)) < 0.000001)
                #expect(abs(seconds - value.timeIntervalSince1970) < 0.000002)
            }
            #expect(try await pool.value(Date?.self, "SELECT $1", [.timestamp(nil)]) == nil)
            let infinities = try await pool.read("SELECT 'infinity'::timestamptz, '-infinity'::timestamptz")
            let (future, past) = try #require(infinities.first).decode(Date.self, Date.self)
            #expect(future == .distantFuture)
            #expect(past == .distantPast)

            let json = Array(#"{"a": "카카오 \"푸시\""}"#.utf8)
            let row = try #require(
                try await pool.read("SELECT $1, $1, $1->>'a', $1::json::text", [.jsonb(json)]).first
            )
            let (bytes, text, member, plain) = try row.decode([UInt8].self, String.self, String.self, String.self)
            #expect(bytes == json)
            #expect(text == String(decoding: json, as: UTF8.self))
            #expect(member == "카카오 \"푸시\"")
            #expect(plain == text)
        }
    }

    @Test("Arrays of every type, with NULLs, have the elements that unnest returns")
    func arrays() async throws {
        try await TestDatabase.withPool { pool, _ in
            func elements<Element: PostgresDecodable & Equatable>(
                _ array: PostgresValue,
                _ expected: [Element?]
            ) async throws {
                let rows = try await pool.read(
                    "SELECT element FROM unnest($1) WITH ORDINALITY AS a (element, position) ORDER BY position",
                    [array]
                )
                #expect(try rows.map { try $0.decode(Element?.self) } == expected)
            }
            let texts = Self.texts + [nil] as [String?]
            try await elements(.texts(texts), texts)
            try await elements(.int64s([.min, nil, .max]), [Int64.min, nil, .max])
            try await elements(.int32s([1, nil, -1]), [Int32(1), nil, -1])
            try await elements(.float64s([1.5, nil]), [1.5, nil])
            try await elements(.bools([true, nil, false]), [true, nil, false])
            try await elements(.byteas([[], nil, [0, 255]]), [[UInt8](), nil, [0, 255]])
            let uuids = [UUID(), nil, UUID()]
            try await elements(.uuids(uuids), uuids)
            let dates = [Date(timeIntervalSince1970: 1_700_000_000), nil]
            try await elements(.timestamps(dates), dates)
            try await elements(.jsonbs([Array("[1, 2]".utf8), nil]), ["[1, 2]", nil])
            try await elements(.int64s([]), [Int64?]())
        }
    }

    @Test("Arrays are decoded as arrays, except arrays with a NULL, of two dimensions or of another element type")
    func arrayResults() async throws {
        try await TestDatabase.withPool { pool, _ in
            let uuid = UUID()
            let row = try #require(
                try await pool.read("SELECT $1, $2, $3", [.int64s([1, -2]), .texts(Self.texts), .uuids([uuid])]).first
            )
            let (numbers, texts, uuids) = try row.decode([Int64].self, [String].self, [UUID].self)
            #expect(numbers == [1, -2])
            #expect(texts == Self.texts)
            #expect(uuids == [uuid])
            #expect(try await pool.value([Int64].self, "SELECT '{}'::bigint[]") == [])
            for sql in ["SELECT ARRAY[1, NULL]::bigint[]", "SELECT '{{1},{2}}'::bigint[]", "SELECT ARRAY['a']"] {
                let row = try #require(try await pool.read(sql).first)
                #expect(throws: PostgresError.self) { try row.decode([Int64].self) }
            }
        }
    }

    @Test("Arrays of different lengths are sent as literals and returned unchanged")
    func arrayLiterals() async throws {
        try await TestDatabase.withPool { pool, _ in
            let arrays = [[], ["a"], [""], ["NULL", "null"], Self.texts, [#"a"b\c,d{e}'f"#, #"\\"#, " ", "\n\t"]]
            let rows = try await pool.read("SELECT item::text[] FROM unnest($1) AS item", [.textArrayLiterals(arrays)])
            #expect(try rows.map { try $0.decode([String].self) } == arrays)
            await #expect(throws: PostgresError.self) {
                try await pool.read("SELECT $1", [.textArrayLiterals([["a\0"]])])
            }
        }
    }

    @Test("Narrower integers and reals are decoded as wider ones")
    func widening() async throws {
        try await TestDatabase.withPool { pool, _ in
            let row = try #require(try await pool.read("SELECT 1::int2, 2::int4, 3::int2, 0.5::float4").first)
            let (small, medium, narrow, real) = try row.decode(Int64.self, Int64.self, Int32.self, Double.self)
            #expect([small, medium, Int64(narrow)] == [1, 2, 3])
            #expect(real == 0.5)
        }
    }

    @Test("Wrong types, unexpected NULLs and wrong column counts are decoding errors that name the column")
    func wrongShapes() async throws {
        try await TestDatabase.withPool { pool, _ in
            let row = try #require(try await pool.read("SELECT 1::bigint AS id, NULL::text AS name").first)
            for decode: () throws -> Void in [
                { _ = try row.decode(Int64.self, String.self) },
                { _ = try row.decode(String.self, String?.self) },
                { _ = try row.decode(Int32.self, String?.self) },
                { _ = try row.decode(Int64.self) },
                { _ = try row.decode(Int64.self, String?.self, Int64.self) },
                { _ = try row.decode { try ($0.next(Int64.self), $0.next(String.self)) } },
                { _ = try row.decode { try $0.next(Int64.self) } },
                { _ = try row.decode { try ($0.next(Int64.self), $0.next(String?.self), $0.next(Int64.self)) } },
            ] {
                let error = #expect(throws: PostgresError.self) { try decode() }
                #expect(error?.code == .decoding)
            }
            let unnamed = #expect(throws: PostgresError.self) { try row.decode(Int64.self, String.self) }
            #expect(unnamed?.detail?.contains("\"name\"") == true)
            let (id, name): (Int64, String?) = try row.decode { try ($0.next(), $0.next()) }
            #expect(id == 1 && name == nil)
        }
    }

    @Test("A text with a NUL and an invalid date, alone or in an array, are rejected before the statement is sent")
    func refused() async throws {
        try await TestDatabase.withPool { pool, _ in
            let isNotADate = Date(timeIntervalSinceReferenceDate: .nan)
            for value: PostgresValue in [
                .text("a\0b"), .texts(["a", "b\0"]), .timestamp(isNotADate), .timestamps([isNotADate]),
            ] {
                let error = try await postgresError { _ = try await pool.read("SELECT $1", [value]) }
                #expect(error.code == .invalidParameter)
                #expect(error.detail?.contains("$1") == true)
            }
            #expect(try await pool.read("SELECT $1", [.text("ab")]).count == 1)
        }
    }
}
