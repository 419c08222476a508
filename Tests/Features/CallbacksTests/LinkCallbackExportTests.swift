import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Callbacks

/// The export of link callbacks, and their removal after the retention time.
@Suite(.timeLimit(.minutes(5))) struct LinkCallbackExportTests {
    @Test("An export has all callbacks that pass the filter, one a line, as NDJSON and as CSV without formulas")
    func export() async throws {
        try await withService { service in
            try await service.database.pool.write(
                """
                INSERT INTO link_callbacks (key, id, chat_type, hash_chat_id, template_id, args, received_at)
                SELECT 'key-' || n, ('01900000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid,
                    CASE n % 2 WHEN 0 THEN 'MemoChat' ELSE 'DirectChat' END, '=room-' || n, n,
                    jsonb_build_object('product_id', '값,"' || n), '2026-03-28T12:00:00Z'
                FROM generate_series(1, 1201) AS n
                """
            )
            let path = "/v1/link/callbacks/export"
            let lines = try await service.api.get(path, ["reason": "Test", "chat_type": "MemoChat"])
            #expect(lines.headerFields[.contentType] == "application/x-ndjson;charset=UTF-8")
            let items = try lines.text.split(separator: "\n").map { try JSONValue(parsing: Array($0.utf8)) }
            #expect(items.count == 600)
            #expect(
                items.map { $0["template_id"]?.integer ?? 0 } == stride(from: 1200, to: 0, by: -2).map { Int64($0) }
            )
            let page = try await service.api.get("/v1/link/callbacks", ["chat_type": "MemoChat", "limit": "3"])
            #expect(Array(items.prefix(3)) == page.json?["items"]?.array)
            for since in ["0001-01-01T00:00:00Z", "1969-12-31T00:00:00Z"] {
                let all = try await service.api.get("/v1/link/callbacks", ["since": since, "limit": "3"])
                #expect(all.json?["items"]?.array?.count == 3)
            }

            var caller = service.api
            caller.headerFields[.accept] = "text/csv"
            let table = try await caller.get(path, ["reason": "Test"])
            #expect(table.headerFields[.contentType] == "text/csv;charset=UTF-8")
            let rows = table.text.split(separator: "\r\n")
            try #require(rows.count == 1202)
            #expect(rows[0].hasPrefix("id,resource_id,chat_type,hash_chat_id,template_id,args,"))
            #expect(rows[1].hasPrefix("01900000-0000-7000-8000-000000001201,key-1201,DirectChat,'=room-1201,1201,"))
            // The value `값,"1201` as JSON in a field of CSV, with PostgreSQL's space after the colon.
            #expect(rows[1].contains(#","{""product_id"": ""값,\""1201""}","#))

            // A page is no export.
            for format in ["csv", "ndjson"] {
                #expect(try await service.api.get("/v1/link/callbacks", ["format": format]).field == "format")
            }
            #expect(try await caller.get("/v1/link/callbacks", ["limit": "3"]).json?["items"]?.array?.count == 3)
        }
    }

    @Test("The audit log has the parameters of an export, without control characters and cut to a limit")
    func recordedParameters() async throws {
        try await withService { service in
            for query in ["arg.%00a=%0Ab%C2%8F", "arg.long=\(String(repeating: "x", count: 3000))", "template_id=%00"] {
                _ = try await service.api.get("/v1/link/callbacks/export?reason=Test&\(query)")
            }
            let records = try await service.api.get("/v1/audit", ["operation": "exportLinkCallbacks"]).json?["items"]
            let reasons = (records?.array ?? []).compactMap { $0["reason"]?.string }
            // The last one was rejected, and so has no record.
            #expect(reasons.count == 2 && reasons.last == "Test (arg.a=b)")
            #expect(reasons.first?.hasPrefix("Test (arg.long=xxx") == true && reasons.first?.hasSuffix("xxx…)") == true)
            #expect(reasons.first?.count == 1000 + "Test (…)".count)
        }
    }

    @Test(
        "A field that a spreadsheet takes for a formula gets an apostrophe",
        arguments: ["=1+1", "+1", "-1", "@A1", "\tx", "\rx"]
    )
    func formulas(text: String) {
        #expect(CSVLine.withoutFormula(text) == "'" + text)
        #expect(CSVLine.withoutFormula("x" + text) == "x" + text)
        #expect(CSVLine.withoutFormula("") == "")
    }

    @Test("Callbacks and events are removed after their retention time, in steps, and only these")
    func retention() async throws {
        try await TestDatabase.with { database in
            try await database.pool.write(
                """
                INSERT INTO link_callbacks (key, id, chat_type, hash_chat_id, args, received_at)
                SELECT 'c' || n, overlay(uuid_v7_floor(at)::text placing lpad(n::text, 12, '0') from 25)::uuid, 'MemoChat', '', '{}', at
                FROM generate_series(1, 20) AS n, LATERAL (SELECT now() - make_interval(days => n, mins => 1) AS at) AS time
                """
            )
            try await database.pool.write(
                """
                INSERT INTO events (key, id, type, payload, received_at, happened_at)
                SELECT key, id, 'unlink', '{}', received_at, received_at FROM link_callbacks
                """
            )
            for (limit, left) in [(6, 14), (6, 9), (6, 9)] {
                try await database.pool.write(DeleteOldLinkCallbacks(retentionDays: 10, limit: limit))
                #expect(try await database.count("link_callbacks") == left)
            }
            #expect(try await database.count("link_callbacks WHERE received_at < now() - interval '11 days'") == 0)
            try await database.pool.write(DeleteOldEvents(retentionDays: 4, limit: 100))
            #expect(try await database.count("events") == 3)
        }
    }

    @Test("The floor of a time is at most every id of that time, and greater than every earlier one")
    func floor() async throws {
        try await TestDatabase.with { database in
            for _ in 0..<200 {
                let before = Date()
                let id = UUID.v7()
                let after = Date()
                let row = try await database.pool.read(
                    "SELECT uuid_v7_floor($1) <= $2 AND $2 < uuid_v7_floor($3 + interval '1 millisecond')",
                    [.timestamp(before.addingTimeInterval(-0.001)), .uuid(id), .timestamp(after)]
                )
                #expect(try row.first?.decode(Bool.self) == true)
            }
        }
    }
}
