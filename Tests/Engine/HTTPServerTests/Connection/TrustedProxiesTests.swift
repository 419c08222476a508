import HTTPTypes
import Net
import TestSupport
import Testing

@testable import HTTPServer

private func routes(_ router: inout Router) {
    router.add(.get, "/client", .immediate { .text("\($0.clientAddress.host) \($0.remoteAddress.host)") })
}

private func get(_ fields: String...) -> String {
    "GET /client HTTP/1.1\r\nHost: a\r\n\(fields.map { "\($0)\r\n" }.joined())\r\n"
}

/// The client addresses that trusted proxies report.
@Suite("Trusted proxies", .timeLimit(.minutes(1)))
struct TrustedProxiesTests {
    @Test(
        "Addresses are parsed in all notations",
        arguments: [
            ("203.0.113.7", "203.0.113.7"), ("0.0.0.0", "0.0.0.0"), ("255.255.255.255", "255.255.255.255"),
            ("::1", "0:0:0:0:0:0:0:1"), ("2001:DB8::a:b", "2001:db8:0:0:0:0:a:b"), ("::", "0:0:0:0:0:0:0:0"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
        ]
    )
    func address(text: String, host: String) throws {
        let address = try #require(SocketAddress(text))
        #expect(address.host == host)
        #expect(address.port == 0)
    }

    @Test(
        "Invalid addresses are rejected",
        arguments: [
            "", " ", "1", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "1.2.3.4 ", " 1.2.3.4", "1.2.3.4:80",
            "[::1]", "[::1]:80", ":", ":::", "1::2::3", "12345::", "fe80::1%eth0", "localhost", "unknown", "_hidden",
            "1.2.3.4\u{0}", "::1\u{0}x", "１.2.3.4", "::ffff:1.2.3", "+1.2.3.4", "1.2.3.4/8",
        ]
    )
    func noAddress(text: String) {
        #expect(SocketAddress(text) == nil)
    }

    @Test(
        "A network contains the addresses with its prefix, including IPv4-mapped ones",
        arguments: [
            (
                "10.0.0.0/8", ["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"],
                ["9.255.255.255", "11.0.0.0", "::10.0.0.1"]
            ),
            ("10.1.2.3/8", ["10.200.0.1"], ["11.1.2.3"]),
            ("192.0.2.128/25", ["192.0.2.128", "192.0.2.255"], ["192.0.2.127", "192.0.3.128"]),
            ("192.0.2.1", ["192.0.2.1"], ["192.0.2.0", "192.0.2.2"]),
            ("192.0.2.1/32", ["192.0.2.1"], ["192.0.2.0"]),
            ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::1", "2001:db8::1"]),
            ("2001:db8::/32", ["2001:db8::", "2001:db8:ffff::1"], ["2001:db7::1", "2001:db9::", "32.1.13.184"]),
            ("2001:db8::/65", ["2001:db8::7fff:0:0:0"], ["2001:db8::8000:0:0:0", "2001:db8:0:1::"]),
            ("2001:db8::/64", ["2001:db8::ffff:0:0:1"], ["2001:db8:0:1::1"]),
            ("::1", ["::1"], ["::2", "::", "127.0.0.1"]),
            ("::/0", ["::1", "10.0.0.1"], []),
            ("::ffff:10.0.0.0/104", ["10.9.9.9"], ["11.0.0.0"]),
        ]
    )
    func network(text: String, inside: [String], outside: [String]) throws {
        let block = try #require(AddressBlock(text))
        for address in inside { #expect(block.contains(try #require(SocketAddress(address))), "\(address)") }
        for address in outside { #expect(!block.contains(try #require(SocketAddress(address))), "\(address)") }
    }

    @Test(
        "A list with an invalid entry is rejected",
        arguments: [
            "", ",", "10.0.0.0/8,", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/8/8",
            "10.0.0.0/x", "10.0.0.0/0008", "10.0.0/8", "/8", "proxy.example.com", "10.0.0.1 10.0.0.2",
        ]
    )
    func refused(text: String) {
        #expect(TrustedProxies(text) == nil)
    }

    @Test(
        "The client is the last address that is not a trusted proxy; there is none if an element before it is unreadable",
        arguments: [
            (nil, "10.0.0.1"), ("203.0.113.7", "203.0.113.7"), ("1.1.1.1, 203.0.113.7", "203.0.113.7"),
            ("203.0.113.7, 10.0.0.2, 192.0.2.1", "203.0.113.7"), ("1.1.1.1,203.0.113.7,10.0.0.2", "203.0.113.7"),
            ("  203.0.113.7\t,  10.0.0.2 ", "203.0.113.7"), ("10.0.0.9, 10.0.0.2", "10.0.0.9"),
            ("10.0.0.9", "10.0.0.9"), ("2001:db8::7, 10.0.0.2", "2001:db8:0:0:0:0:0:7"),
            ("nonsense, 203.0.113.7", "203.0.113.7"), ("203.0.113.7, nonsense", nil),
            ("203.0.113.7, nonsense, 10.0.0.2", nil), ("", "10.0.0.1"), (",", "10.0.0.1"),
            ("203.0.113.7,", "203.0.113.7"), ("203.0.113.7, ,10.0.0.2", "203.0.113.7"),
            // With ports, as gateways write them.
            ("203.0.113.7:51022", "203.0.113.7"), ("1.1.1.1:1, 203.0.113.7:51022, 10.0.0.2:80", "203.0.113.7"),
            ("203.0.113.7:_hidden", "203.0.113.7"), ("[2001:db8::7]:51022", "2001:db8:0:0:0:0:0:7"),
            ("[2001:db8::7]", "2001:db8:0:0:0:0:0:7"), ("\"[2001:db8::7]:51022\"", "2001:db8:0:0:0:0:0:7"),
            ("\"203.0.113.7\"", "203.0.113.7"), ("fe80::7%eth0", "fe80:0:0:0:0:0:0:7"),
            ("[fe80::7%25eth0]:443", "fe80:0:0:0:0:0:0:7"),
            // The client's part does not change where the proxy's begins.
            ("\", 203.0.113.7", "203.0.113.7"), ("\"1.1.1.1, 203.0.113.7:80", "203.0.113.7"),
            ("1.1.1.1\u{600}, 203.0.113.7", "203.0.113.7"),
            ("unknown", nil), ("_hidden", nil), ("1.1.1.1, unknown", nil), ("203.0.113.7:", nil),
            ("203.0.113.7:123456", nil), ("203.0.113.7:80:80", nil), ("203.0.113.7:x", nil), ("[203.0.113.7]:80", nil),
            ("[2001:db8::7", nil), ("[2001:db8::7]80", nil), ("2001:db8::7]", nil), ("\"", nil), ("\"\"", nil),
            ("203.0.113.7%eth0", nil), ("203.0.113.7 10.0.0.2", nil),
        ] as [(String?, String?)]
    )
    func client(forwardedFor: String?, client: String?) throws {
        let proxies = try #require(TrustedProxies("10.0.0.0/8, 192.0.2.1"))
        let proxy = try #require(SocketAddress("10.0.0.1"))
        #expect(proxies.client(forwardedFor, in: .xForwardedFor, through: proxy)?.host == client)
    }

    @Test(
        "The elements of Forwarded name the client in `for`",
        arguments: [
            (nil, "10.0.0.1"), ("for=203.0.113.7", "203.0.113.7"), ("For=\"203.0.113.7:51022\"", "203.0.113.7"),
            ("for=1.1.1.1, for=203.0.113.7;proto=https;by=10.0.0.1", "203.0.113.7"),
            ("for=\"[2001:db8::7]:4711\", for=10.0.0.2", "2001:db8:0:0:0:0:0:7"),
            ("proto=https ; FOR = 203.0.113.7", "203.0.113.7"),
            ("host=\"a;for=1.1.1.1, for=1.1.1.1\";for=203.0.113.7", "203.0.113.7"),
            ("for=\", for=203.0.113.7", "203.0.113.7"),
            ("for=unknown", nil), ("for=_hidden", nil), ("for=\"_hidden:_port\"", nil), ("proto=https", nil),
            ("203.0.113.7", nil), ("for=1.1.1.1;for=203.0.113.7", nil), ("for=", nil),
            ("for=1.1.1.1, proto=https", nil),
        ] as [(String?, String?)]
    )
    func forwarded(forwarded: String?, client: String?) throws {
        let proxies = try #require(TrustedProxies("10.0.0.0/8, 192.0.2.1"))
        let proxy = try #require(SocketAddress("10.0.0.1"))
        #expect(proxies.client(forwarded, in: .forwarded, through: proxy)?.host == client)
    }

    @Test("A long X-Forwarded-For is read as far as necessary")
    func long() throws {
        let proxies = try #require(TrustedProxies("10.0.0.0/8"))
        let proxy = try #require(SocketAddress("10.0.0.1"))
        let entries = [String](repeating: "10.0.0.2", count: 5000)
        #expect(
            proxies.client((["203.0.113.7"] + entries).joined(separator: ","), in: .xForwardedFor, through: proxy)?.host
                == "203.0.113.7"
        )
    }

    @Test("X-Forwarded-For of a trusted proxy gives the client's address, in one field or several")
    func trusted() async throws {
        let trusting = settings { $0.trustedProxies = TrustedProxies("127.0.0.0/8, 10.0.0.0/8") ?? .none }
        try await withServer(trusting, routes: routes) { server in
            let client = try server.connect()
            #expect(try await client.exchange(get()).text == "127.0.0.1 127.0.0.1")
            #expect(
                try await client.exchange(get("X-Forwarded-For: 1.1.1.1, 203.0.113.7")).text == "203.0.113.7 127.0.0.1"
            )
            let several = get("X-Forwarded-For: 203.0.113.7", "x-forwarded-for: 10.0.0.2")
            #expect(try await client.exchange(several).text == "203.0.113.7 127.0.0.1")
            let withPort = get("X-Forwarded-For: 203.0.113.7:51022")
            #expect(try await client.exchange(withPort).text == "203.0.113.7 127.0.0.1")
            // Only the field of the settings is read.
            #expect(try await client.exchange(get("Forwarded: for=203.0.113.7")).text == "127.0.0.1 127.0.0.1")
        }
    }

    @Test("Forwarded of a trusted proxy gives the client's address, if the settings name it")
    func forwardedField() async throws {
        let trusting = settings {
            $0.trustedProxies = TrustedProxies("127.0.0.0/8") ?? .none
            $0.forwardedField = .forwarded
        }
        try await withServer(trusting, routes: routes) { server in
            let client = try server.connect()
            let request = get("X-Forwarded-For: 1.1.1.1", "Forwarded: for=1.1.1.1", "forwarded: for=\"203.0.113.7:1\"")
            #expect(try await client.exchange(request).text == "203.0.113.7 127.0.0.1")
        }
    }

    @Test("A client whose address cannot be read counts as its proxy, which is counted, and logged once")
    func unreadable() async throws {
        let trusting = settings { $0.trustedProxies = TrustedProxies("127.0.0.0/8") ?? .none }
        try await withServer(trusting, routes: routes) { server in
            let client = try server.connect()
            for value in ["nonsense", "unknown", "203.0.113.7, _hidden"] {
                #expect(try await client.exchange(get("X-Forwarded-For: \(value)")).text == "127.0.0.1 127.0.0.1")
            }
            _ = try await client.exchange(get())
            _ = try await client.exchange(get("X-Forwarded-For: 203.0.113.7"))
            #expect(await server.server.requests().unreadableAddresses == 3)
            let notes = server.log.lines.filter { $0.message.contains("Client address unreadable") }
            #expect(notes.count == 1)
            #expect(notes.first?.metadata["remote"] == "127.0.0.1")
            #expect(notes.first?.metadata["value"] == "nonsense")
        }
    }

    @Test("X-Forwarded-For of an untrusted peer is ignored", arguments: ["", "10.0.0.0/8, ::1"])
    func untrusted(proxies: String) async throws {
        let trusting = settings { $0.trustedProxies = TrustedProxies(proxies) ?? .none }
        try await withServer(trusting, routes: routes) { server in
            let answer = try await server.connect().exchange(get("X-Forwarded-For: 203.0.113.7"))
            #expect(answer.text == "127.0.0.1 127.0.0.1")
        }
    }

    @Test("The access log contains the proxy and the client")
    func log() async throws {
        let trusting = settings { $0.trustedProxies = TrustedProxies("127.0.0.1") ?? .none }
        let log = CollectedLog()
        try await withServer(trusting, middleware: [AccessLog(logger: log.logger)], routes: routes) { server in
            _ = try await server.connect().exchange(get("X-Forwarded-For: 203.0.113.7"))
            _ = try await server.connect().exchange(get())
        }
        #expect(log.lines.map { $0.metadata["remote"] } == ["127.0.0.1", "127.0.0.1"])
        #expect(log.lines.map { $0.metadata["client"] } == ["203.0.113.7", nil])
    }

    @Test("Connections of a trusted proxy are not limited by address")
    func connections() async throws {
        let limited = settings { settings in
            settings.maximumConnectionsPerAddress = 1
            settings.trustedProxies = TrustedProxies("127.0.0.1") ?? .none
        }
        try await withServer(limited, routes: routes) { server in
            var clients: [RawClient] = []
            for _ in 0..<5 {
                let client = try server.connect()
                #expect(try await client.exchange(get()).status == 200)
                clients.append(client)
            }
        }
    }
}
