import EventLoop
import Testing

@testable import Postgres

@Suite struct PostgresSettingsTests {
    @Test("A URL and a keyword string give the same settings")
    func forms() throws {
        for url in [
            "postgres://me:secret@db.example:5433/push?sslmode=require",
            "host=db.example port=5433 user=me password=secret dbname=push sslmode=require",
        ] {
            let settings = try PostgresSettings(url: url)
            let parameters = Dictionary(
                uniqueKeysWithValues: settings.parameters(addresses: []).map { ($0.keyword, $0.value) }
            )
            #expect(parameters["user"] == "me")
            #expect(parameters["password"] == "secret")
            #expect(parameters["port"] == "5433")
            #expect(parameters["sslmode"] == "require")
            #expect(settings.hostsToResolve == ["db.example"])
        }
    }

    @Test("The password is never printed with the settings", arguments: ["secret", "s%26cret"])
    func masked(password: String) throws {
        let settings = try PostgresSettings(url: "postgres://me:\(password)@db.example/push")
        var dumped = ""
        dump(settings, to: &dumped)
        for text in ["\(settings)", String(reflecting: settings), dumped, "\([settings])"] {
            #expect(!text.contains("cret"))
            #expect(text.contains("db.example"))
        }
    }

    @Test(
        "An invalid connection string is rejected, and not quoted in the error",
        arguments: ["secret", "postgres://me:secret@h:p", "host"]
    )
    func refused(url: String) {
        let error = #expect(throws: PostgresError.self) { try PostgresSettings(url: url) }
        #expect(error?.code == .settings)
        #expect(error.map { !String(reflecting: $0).contains("secret") } ?? false)
    }

    @Test("Timeout, planner settings and application name are sent; an application name in the string takes precedence")
    func options() throws {
        var settings = try PostgresSettings(url: "postgres://h/d?options=-csearch_path%3Da")
        settings.statementTimeout = .milliseconds(1500)
        var parameters = Dictionary(
            uniqueKeysWithValues: settings.parameters(addresses: []).map { ($0.keyword, $0.value) }
        )
        #expect(parameters["options"] == "-c enable_seqscan=off -c jit=off -csearch_path=a -c statement_timeout=1500")
        #expect(parameters["application_name"] == "push-server")
        settings = try PostgresSettings(url: "postgres://h/d?application_name=mine")
        settings.statementTimeout = nil
        settings.plansOnce = true
        parameters = Dictionary(uniqueKeysWithValues: settings.parameters(addresses: []).map { ($0.keyword, $0.value) })
        #expect(
            parameters["options"] == "-c enable_seqscan=off -c jit=off -c plan_cache_mode=force_generic_plan"
        )
        #expect(parameters["application_name"] == "mine")
    }

    @Test("A host is listed once for each of its addresses, and an unknown host is left out")
    func addresses() throws {
        let settings = try PostgresSettings(url: "postgres://a:1,b:2,c:3/d")
        let parameters = Dictionary(
            uniqueKeysWithValues: settings.parameters(addresses: [["10.0.0.1", "::1"], nil, ["10.0.0.3"]])
                .map { ($0.keyword, $0.value) }
        )
        #expect(parameters["host"] == "a,a,c")
        #expect(parameters["hostaddr"] == "10.0.0.1,::1,10.0.0.3")
        #expect(parameters["port"] == "1,1,3")
    }

    @Test("Names need a resolver; paths and numeric addresses do not")
    func lookUps() {
        #expect(PostgresSettings.addressesWithoutLookUp(of: "/run/postgresql") == [])
        #expect(PostgresSettings.addressesWithoutLookUp(of: "127.0.0.1") == ["127.0.0.1"])
        #expect(PostgresSettings.addressesWithoutLookUp(of: "::1") == ["::1"])
        #expect(PostgresSettings.addressesWithoutLookUp(of: "localhost") == nil)
    }

    @Test("Each host has its addresses, and an unknown name has none")
    func resolution() async throws {
        let group = try EventLoopGroup(count: 1)
        defer { group.shutdown() }
        func resolve(_ hosts: [String]) async throws -> [[String]?] {
            try await withCheckedThrowingContinuation { continuation in
                PostgresSettings.resolve(hosts, on: group.loops[0]) { continuation.resume(with: $0) }
            }
        }
        let found = try await resolve(["localhost", "/tmp", "name.invalid"])
        #expect(found.count == 3)
        #expect(found[0]?.isEmpty == false)
        #expect(found[1] == [])
        #expect(found[2] == nil)
        await #expect(throws: PostgresError.self) { try await resolve(["name.invalid"]) }
    }
}
