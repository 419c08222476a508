import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPTypes
import Identity
import JSON
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

/// Tests of `/v1/keys`, where operators create, list and delete keys.
@Suite(.timeLimit(.minutes(5))) struct KeyRoutesTests {
    private static let path = "/v1/keys"

    /// Creates a key, and returns its path and a caller with it.
    private static func create(
        _ api: TestClient,
        _ fields: JSONObject
    ) async throws -> (path: String, caller: TestClient) {
        var body: JSONObject = ["name": "made"]
        for (name, value) in fields.members { body[name] = value }
        let answer = try await api.post(path, json: .object(body))
        #expect(answer.status == 201, "\(answer.text)")
        let key = try #require(answer.json?["key"]?.string)
        return (try #require(answer.headerFields[.location]), api.with("Bearer \(key)"))
    }

    // MARK: Creating

    @Test("A key is created with the scopes of its role and others, and names who created it")
    func created() async throws {
        try await withService { service in
            let answer = try await service.api.post(
                Self.path,
                json: ["name": "kim", "role": "marketing", "scopes": ["operate"], "expires_at": time(in: 3600)]
            )
            #expect(answer.status == 201)
            #expect(answer.headerFields[.cacheControl] == "no-store")
            let key = try #require(answer.json)
            #expect(key["scopes"] == ["operate", "read", "send", "sharing"])
            #expect(key["created_by"] == "operator.key")
            #expect(key["created_by_key"]?.string == UUID.zero.lowercased)
            #expect(key["expires_at"]?.string != nil)
            #expect(key["revoked_at"] == .null && key["last_used_at"] == .null)
            let caller = service.api.with("Bearer \(try #require(key["key"]?.string))")
            #expect(try await caller.get("/v1/pushes").status == 200)
            #expect(try await caller.post("/v1/webhooks/replay", json: ["id": "msg_1"]).status == 403)
            #expect(try await caller.post(Self.path, json: ["name": "x", "role": "security"]).status == 403)
            #expect(try await caller.get(Self.path).status == 403)
            #expect(try await caller.delete(answer.headerFields[.location] ?? "").status == 403)
        }
    }

    @Test("A key is shown once: neither the database, nor a list, nor the log has it")
    func secrecy() async throws {
        try await withService { service in
            let api = service.api.with(idempotencyKey: "once")
            let answer = try await api.post(Self.path, json: ["name": "lee", "role": "approver"])
            let key = try #require(answer.json?["key"]?.string)
            #expect(key.hasPrefix("kps_"))
            let list = try await service.api.get(Self.path)
            #expect(list.json?["items"]?.array?.map { $0["id"] } == [answer.json?["id"]])
            #expect(!list.text.contains(key))
            let records = try await service.api.get("/v1/audit", ["operation": "createKey"])
            #expect(records.json?["items"]?.array?.map { $0["object"] } == [answer.json?["id"]])
            let tables = try await service.database.text(
                "SELECT string_agg(quote_ident(tablename), ' ') FROM pg_tables WHERE schemaname = current_schema()"
            )
            for table in tables.split(separator: " ") {
                #expect(
                    try await service.database.count("\(table) AS row WHERE row::text LIKE '%\(key)%'") == 0,
                    "\(table)"
                )
            }
            #expect(!service.log.lines.contains { $0.text.contains(key) })
        }
    }

    @Test("A repeated request creates no second key, and does not show the first one again")
    func repeated() async throws {
        try await withService { service in
            let api = service.api.with(idempotencyKey: "1")
            let body: JSONValue = ["name": "lee", "role": "approver"]
            let first = try await api.post(Self.path, json: body)
            let again = try await api.post(Self.path, json: body)
            #expect(again.status == 200)
            #expect(again.headerFields[.location] == first.headerFields[.location])
            #expect(again.headerFields[.cacheControl] == "no-store")
            #expect(again.json?["key"] == .null)
            #expect(again.json?["id"] == first.json?["id"])
            let other = try await api.post(Self.path, json: ["name": "lee", "role": "security"])
            #expect(other.status == 422)
            #expect(other.problem == "idempotency-key-in-use")
            #expect(try await service.database.count("operator_keys") == 1)
            #expect(try await service.database.count("audit_records WHERE operation = 'createKey'") == 1)
            // Another operator chooses keys independently.
            let admin = try await Self.create(service.api, ["role": "security"]).caller.with(idempotencyKey: "1")
            #expect(try await admin.post(Self.path, json: body).status == 201)
        }
    }

    @Test("A key needs a name, and a role or scopes; its expiry is in the future")
    func invalid() async throws {
        try await withSharedService { service in
            let cases: [(JSONValue, String)] = [
                (["role": "approver"], "name"), (["name": "x"], "scopes"), (["name": "x", "scopes": []], "scopes"),
                (["name": "x", "scopes": ["everything"]], "scopes"), (["name": "x", "role": "boss"], "role"),
                (["name": "x", "role": "approver", "expires_at": "2020-01-01T00:00:00Z"], "expires_at"),
                (["name": "x", "role": "approver", "days": 3], "days"),
            ]
            for (body, field) in cases {
                let answer = try await service.api.post(Self.path, json: body)
                #expect(answer.status == 400)
                #expect(answer.field == field, "\(body)")
            }
        }
    }

    @Test("The list has all keys in pages, the oldest first, with their creators")
    func list() async throws {
        try await withService { service in
            let store = OperatorKeyStore(pool: service.database.pool)
            _ = try await store.create(name: "by a command", scopes: [.read], expiresAt: nil)
            let admin = try await Self.create(service.api, ["role": "security", "name": "admin"])
            let last = try await Self.create(admin.caller, ["scopes": ["read"], "name": "last"])
            #expect(try await admin.caller.delete(last.path).status == 204)
            var items: [JSONValue] = []
            var query: KeyValuePairs = ["limit": "2"]
            while true {
                let page = try #require(try await service.api.get(Self.path, query).json)
                items += page["items"]?.array ?? []
                guard let next = page["next"]?.string else { break }
                query = ["limit": "2", "cursor": next]
            }
            #expect(items.map { $0["name"] } == ["by a command", "admin", "last"])
            #expect(items[0]["created_by"]?.string?.hasPrefix("push-server (") == true)
            #expect(items[0]["created_by_key"] == .null)
            #expect(items[2]["created_by"] == "admin")
            #expect(items[2]["created_by_key"] == items[1]["id"])
            #expect(items.map { $0["revoked_at"] == .null } == [true, true, false])
            #expect(items.allSatisfy { $0["key"] == nil })
        }
    }

    // MARK: Deleting

    @Test("Every server soon rejects a deleted key")
    func deleted() async throws {
        try await withService { service in
            let made = try await Self.create(service.api, ["scopes": ["read"]])
            try await RunningServer.with(service.settings) { other in
                let callers = [made.caller, other.with(made.caller.authorization)]
                for caller in callers { #expect(try await caller.get("/v1/pushes").status == 200) }
                #expect(try await service.api.delete(made.path).status == 204)
                for caller in callers {
                    try await eventually("the key is rejected") { try await caller.get("/v1/pushes").status == 401 }
                }
            }
            for path in [made.path, "\(Self.path)/x", "\(Self.path)/\(UUID.v7().lowercased)"] {
                #expect(try await service.api.delete(path).status == 404)
            }
            let ofSettings = try await service.api.delete("\(Self.path)/\(UUID.zero.lowercased)")
            #expect(ofSettings.status == 404)
            #expect(ofSettings.json?["detail"]?.string?.contains("operator.key") == true)
            #expect(try await service.database.count("audit_records WHERE operation = 'deleteKey'") == 1)
        }
    }

    @Test("A key of the role on-call reads what the runbook looks at, and neither sends nor logs out")
    func onCall() async throws {
        try await withAccounts { service in
            let onCall = try await Self.create(service.api, ["role": "on-call"]).caller
            let missing = UUID.v7().lowercased
            for path in [
                "/metrics", "/v1/status", "/v1/pushes", "/v1/messages", "/v1/accounts", "/v1/events",
                "/v1/link/callbacks", "/v1/users/1/devices", "/v1/users/1/pushes",
            ] {
                #expect(try await onCall.get(path).status == 200, "\(path)")
            }
            for path in ["/v1/messages/\(missing)", "/v1/messages/\(missing)/receivers", "/v1/accounts/1"] {
                #expect(try await onCall.get(path).status == 404, "\(path)")
            }
            let message: JSONValue = ["sender": "1", "to": "me", "template_id": 7]
            #expect(try await onCall.post("/v1/messages", json: message).status == 403)
            #expect(try await onCall.delete("/v1/accounts/1").status == 403)
            #expect(try await onCall.post("/v1/accounts/1/access-token").status == 403)
        }
    }

    @Test("The last valid key with the scope admin cannot be deleted")
    func lastAdmin() async throws {
        try await withService { service in
            let first = try await Self.create(service.api, ["role": "security"])
            let other = try await Self.create(service.api, ["role": "on-call"])
            let refused = try await first.caller.delete(first.path)
            #expect(refused.status == 409)
            #expect(refused.problem == "last-admin-key")
            // Expired keys do not count.
            let expired = try await Self.create(service.api, ["scopes": ["admin"], "expires_at": time(in: 3600)])
            try await service.database.pool.write(
                "UPDATE operator_keys SET expires_at = now() WHERE expires_at IS NOT NULL"
            )
            #expect(try await service.api.delete(first.path).problem == "last-admin-key")
            #expect(try await service.api.delete(expired.path).status == 204)
            #expect(try await service.api.delete(other.path).status == 204)
            let second = try await Self.create(first.caller, ["scopes": ["read", "admin"]])
            #expect(try await first.caller.delete(first.path).status == 204)
            #expect(try await service.api.delete(second.path).problem == "last-admin-key")
            #expect(try await service.database.count("audit_records WHERE operation = 'deleteKey'") == 3)
        }
    }

    @Test("Of the deletions of the last two keys with the scope admin at the same time, one is refused")
    func concurrent() async throws {
        try await withService { service in
            let admins = [
                try await Self.create(service.api, ["role": "security"]).path,
                try await Self.create(service.api, ["role": "security"]).path,
            ]
            let statuses = try await service.database.pool.withConnection { gate in
                try await gate.query("BEGIN")
                try await gate.query("SELECT 1 FROM operator_keys FOR UPDATE")
                async let first = service.api.delete(admins[0]).status
                async let second = service.api.delete(admins[1]).status
                try await eventually("both wait") {
                    try await service.database.count(
                        "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
                    ) == 2
                }
                try await gate.query("COMMIT")
                return try await [first, second]
            }
            #expect(statuses.sorted() == [204, 409])
            #expect(try await service.database.count("operator_keys WHERE revoked_at IS NULL") == 1)
        }
    }

    // MARK: Roles

    @Test("docs/keys.md lists the scopes of each role, and each scope")
    func page() throws {
        let page = try String(contentsOfFile: "\(TestFiles.repository)/docs/keys.md", encoding: .utf8)
        let rows = page.split(separator: "\n")
        for role in OperatorRole.allCases {
            let row = try #require(rows.first { $0.hasPrefix("| `\(role.rawValue)` |") }, "\(role)")
            let scopes = row.split(separator: "|")[1].split(separator: "`").map(String.init)
                .filter { Scope(rawValue: $0) != nil }
            #expect(Set(scopes) == Set(role.scopes.map(\.rawValue)), "\(role)")
        }
        for scope in Scope.allCases {
            #expect(rows.contains { $0.hasPrefix("| `\(scope.rawValue)` |") }, "\(scope)")
        }
    }
}
