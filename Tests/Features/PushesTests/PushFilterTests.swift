import FoundationEssentials
import HTTPClient
import Identity
import JSON
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints

/// Tests of the filters of `GET /v1/pushes`.
@Suite(.timeLimit(.minutes(5))) struct PushFilterTests {
    private static func names(
        _ service: TestService,
        _ query: KeyValuePairs<String, String>
    ) async throws -> [String?] {
        let answer = try await service.api.get("/v1/pushes", query)
        return try #require(answer.json?["items"]?.array, "\(answer.text)").map { $0["name"]?.string }
    }

    @Test("Pushes are found by the beginning of their name, byte by byte, whatever characters it has")
    func name() async throws {
        try await withService { service in
            let names = ["sale", "sale%", "sale_1", "saleé", "Sale", "여름 세일", "여름"]
            for name in names {
                _ = try await service.api.create(uuids([1]), gcm(), ["name": .string(name)])
            }
            _ = try await service.api.create(uuids([1]))
            for prefix in ["sale", "sale%", "sale_", "S", "여름", "여름 세일", "sale\u{10FFFF}", "le"] {
                let found = names.reversed().filter { $0.utf8.starts(with: prefix.utf8) }
                #expect(try await Self.names(service, ["name": prefix]) == found, "\(prefix)")
            }
        }
    }

    @Test("A push shows the operator key that created it, and is found by the key")
    func createdBy() async throws {
        try await withService { service in
            let keys = OperatorKeyStore(pool: service.database.pool)
            let key = try await keys.create(name: "shop", scopes: [.send], expiresAt: nil)
            let mine = try await service.api.create(uuids([1]), gcm(), ["name": "mine"])
            let shop = service.api.with("Bearer \(key)")
            let theirs = try await shop.post("/v1/pushes", json: pushBody(uuids([1]), gcm(), ["name": "theirs"]))
            #expect(theirs.json?["created_by"] == "shop")
            let sent = try await shop.push([1])
            for (push, name) in [(mine, "operator.key"), (sent, "shop")] {
                #expect(try await service.api.shown(push)["created_by"]?.string == name)
            }
            #expect(try await Self.names(service, ["created_by": "shop"]) == [nil, "theirs"])
            #expect(try await Self.names(service, ["created_by": "operator.key"]) == ["mine"])
            #expect(try await Self.names(service, ["created_by": "sho"]) == [])
        }
    }

    @Test("The filter for proposed pushes finds halted ones that wait for an approval, and no other halted ones")
    func awaitingApproval() async throws {
        try await withService { service in
            for name in ["grown", "halted", "proposed", "scheduled"] {
                _ = try await service.api.create(uuids([1]), gcm(), ["name": .string(name), "send_at": time(in: 3600)])
            }
            let pool = service.database.pool
            try await pool.write("UPDATE pushes SET state = 'proposed' WHERE name = 'proposed'")
            try await pool.write("UPDATE pushes SET state = 'halted' WHERE name IN ('halted', 'grown')")
            try await pool.write(
                "UPDATE pushes SET prepared_at = now(), users = 7, allowed_users = 6 WHERE name = 'grown'"
            )
            #expect(try await Self.names(service, ["state": "proposed"]) == ["proposed", "grown"])
            #expect(try await Self.names(service, ["state": "halted"]) == ["halted", "grown"])
            #expect(try await Self.names(service, ["state": "scheduled"]) == ["scheduled"])
        }
    }

    @Test("Pushes are found by their time of creation, and unfinished ones in every state that has not ended")
    func timeAndState() async throws {
        try await withService { service in
            var times: [String] = []
            for name in ["1", "2", "3"] {
                let push = try await service.api.create(
                    uuids([1]),
                    gcm(),
                    ["name": .string(name), "send_at": time(in: 3600)]
                )
                times.append(try #require(try await service.api.shown(push)["created_at"]?.string))
            }
            #expect(try await Self.names(service, ["since": times[1]]) == ["3", "2"])
            #expect(try await Self.names(service, ["until": times[1]]) == ["1"])
            #expect(try await Self.names(service, ["since": times[1], "until": times[2]]) == ["2"])
            #expect(try await Self.names(service, ["since": times[1], "name": "3", "limit": "1"]) == ["3"])
            #expect(try await Self.names(service, ["since": "0001-01-01T00:00:00Z"]) == ["3", "2", "1"])

            let pool = service.database.pool
            try await pool.write("UPDATE pushes SET state = 'canceled', finished_at = now() WHERE name = '2'")
            try await pool.write("UPDATE pushes SET state = 'halted', reason = '' WHERE name = '1'")
            #expect(try await Self.names(service, ["unfinished": "true"]) == ["3", "1"])
            #expect(try await Self.names(service, ["unfinished": "true", "state": "halted"]) == ["1"])
            #expect(try await Self.names(service, ["unfinished": "false"]) == ["3", "2", "1"])
        }
    }
}
