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
                uniqueKeysWithValues: settings.parameters(PostgresAddress()).map { ($0.keyword, $0.value) }
            )
            #expect(parameters["user"] == "me")
            #expect(parameters["password"] == "secret")
            #expect(parameters["port"] == "5433")
            #expect(parameters["sslmode"] == "require")
            #expect(settings.hosts == [PostgresAddress(host: "db.example", port: "5433")])
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

    @Test("The error of a rejected connection string names the parameter and what to do, and never a value")
    func words() throws {
        for (url, words) in [
            ("postgres://me:secret@h/d?schema=secret", "parameter schema: use options=-csearch_path"),
            ("postgres://me:secret@h/d?sslmode=require&pool=secret", "parameter pool: remove it"),
            ("postgres://me:secret@h/d?whatever=secret", "does not know the parameter whatever"),
            ("host=h wherever=secret", "does not know the parameter wherever"),
            ("jdbc:postgresql://h/d?user=me&password=secret", "jdbc:postgresql:// is the URL of another driver"),
            ("postgresql+psycopg://me:secret@h/d", "postgresql+psycopg:// is the URL of another driver"),
            ("postgres://me:secret@h/d?sslmode=secret", "sslmode must be one of disable, allow, prefer, require"),
            ("postgres://h/d?target_session_attrs=secret", "target_session_attrs must be one of any, read-write"),
            ("postgres://me:pa/x?secret=1@h/d", "? is %3F"),
            ("postgres://me:secret%zz@h/d", "a % must be followed by two hexadecimal digits"),
            ("postgres://me:secret@h:port/d", "a port must be a number"),
            ("secret", "neither a valid postgresql:// URL nor"),
        ] {
            let error = try #require(throws: PostgresError.self) { try PostgresSettings(url: url) }
            #expect(error.words.contains(words), "\(error.words)")
            #expect(!String(reflecting: error).contains("secret"), "\(error.words)")
        }
    }

    @Test("The startup packet has the options of the connection string and none of ours")
    func options() throws {
        var settings = try PostgresSettings(url: "postgres://h/d?options=-csearch_path%3Da")
        settings.statementTimeout = .milliseconds(1500)
        settings.isReadOnly = true
        var parameters = Dictionary(
            uniqueKeysWithValues: settings.parameters(PostgresAddress()).map { ($0.keyword, $0.value) }
        )
        #expect(parameters["options"] == "-csearch_path=a")
        #expect(parameters["application_name"] == "push-server")
        #expect(parameters["target_session_attrs"] == nil)
        settings = try PostgresSettings(url: "postgres://h,i/d?application_name=mine")
        parameters = Dictionary(
            uniqueKeysWithValues: settings.parameters(PostgresAddress()).map { ($0.keyword, $0.value) }
        )
        #expect(parameters["options"] == nil)
        #expect(parameters["application_name"] == "mine")
        #expect(parameters["target_session_attrs"] == "primary")
        settings = try PostgresSettings(url: "postgres://h,i/d?target_session_attrs=any")
        parameters = Dictionary(
            uniqueKeysWithValues: settings.parameters(PostgresAddress()).map { ($0.keyword, $0.value) }
        )
        #expect(parameters["target_session_attrs"] == "any")
    }

    @Test("A certificate that libpq may not read is explained")
    func certificate() throws {
        let message = #"could not open certificate file "/root/.postgresql/postgresql.crt": Permission denied"#
        let settings = try PostgresSettings(url: "postgres://h/d")
        #expect(settings.explaining(message).contains("the folder that HOME names"))
        #expect(settings.explaining("fe_sendauth: no password supplied") == "fe_sendauth: no password supplied")
        #expect(try PostgresSettings(url: "postgres://h/d?sslcert=a").explaining(message) == message)
    }

    @Test(
        "Each host of the string has its address and its port",
        arguments: [
            ("postgres:///d", [PostgresAddress()]),
            ("postgres://a:1,b:2/d", [PostgresAddress(host: "a", port: "1"), PostgresAddress(host: "b", port: "2")]),
            (
                "host=a,b port=5",
                [PostgresAddress(host: "a", port: "5"), PostgresAddress(host: "b", port: "5")]
            ),
            (
                "host=a,b hostaddr=10.0.0.1,",
                [PostgresAddress(host: "a", hostaddr: "10.0.0.1"), PostgresAddress(host: "b")]
            ),
            (
                "hostaddr=10.0.0.1,10.0.0.2",
                [PostgresAddress(hostaddr: "10.0.0.1"), PostgresAddress(hostaddr: "10.0.0.2")]
            ),
            // libpq reports that these do not match.
            ("host=a,b port=1,2,3", [PostgresAddress()]), ("host=a hostaddr=10.0.0.1,10.0.0.2", [PostgresAddress()]),
        ]
    )
    func hosts(url: String, expected: [PostgresAddress]) throws {
        #expect(try PostgresSettings(url: url).hosts == expected)
    }

    @Test("libpq gets a single address")
    func address() throws {
        let settings = try PostgresSettings(url: "postgres://a:1,b:2/d")
        let address = PostgresAddress(host: "b", hostaddr: "10.0.0.2", port: "2")
        let parameters = Dictionary(
            uniqueKeysWithValues: settings.parameters(address).map { ($0.keyword, $0.value) }
        )
        #expect(parameters["host"] == "b")
        #expect(parameters["hostaddr"] == "10.0.0.2")
        #expect(parameters["port"] == "2")
        #expect("\(address)" == "\"b\" (10.0.0.2), port 2")
    }

    @Test("connect_timeout sets the time for each address, as libpq rounds it", arguments: [(0, 3), (1, 2), (7, 7)])
    func connectTimeout(given: Int, seconds: Int) throws {
        let settings = try PostgresSettings(url: "postgres:///d?connect_timeout=\(given)")
        #expect(settings.connectTimeout == .seconds(seconds))
    }

    @Test("Names are looked up; paths and numeric addresses are not, and an unknown name is left out")
    func resolution() async throws {
        let group = try EventLoopGroup(count: 1)
        defer { group.shutdown() }
        func resolve(_ hosts: String) async throws -> [PostgresAddress] {
            let settings = try PostgresSettings(url: "host=\(hosts)")
            return try await withCheckedThrowingContinuation { continuation in
                settings.resolve(on: group.loops[0]) { continuation.resume(with: $0) }
            }
        }
        let found = try await resolve("localhost,/tmp,name.invalid,127.0.0.2,::1")
        #expect(found.first?.host == "localhost" && found.first?.hostaddr != nil)
        #expect(
            found.drop { $0.host == "localhost" } == [
                PostgresAddress(host: "/tmp"), PostgresAddress(host: "127.0.0.2", hostaddr: "127.0.0.2"),
                PostgresAddress(host: "::1", hostaddr: "::1"),
            ]
        )
        await #expect(throws: PostgresError.self) { try await resolve("name.invalid") }
    }
}
