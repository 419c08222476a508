import Crypto
import EventLoop
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Net
import Postgres
import Runtime
import ServiceTesting
import TestSupport
import Testing

@testable import Callbacks
@testable import Endpoints
@testable import Server
@testable import Settings

/// The addresses from which calls with Kakao's credential come: `kakao.source_addresses`.
@Suite(.timeLimit(.minutes(5))) struct SourceAddressTests {
    /// An address of ``networks``.
    private static let kakao = "198.51.100.7"
    /// An address that is none of Kakao's.
    private static let stranger = "203.0.113.9"
    private static let networks = ["198.51.100.0/24", "2001:db8:1::/48"]
    private static let path = "/v1/system/ips"
    private static let line = "Call with Kakao's credential from another address than Kakao's"
    private static let fetched = "Kakao's addresses fetched"
    private static let notFetched = "Kakao's addresses not fetched"

    private static func list(_ entries: JSONValue...) -> JSONObject { ["inbound": .array(entries)] }

    /// Runs `body` with a server behind a proxy at 127.0.0.1, once it has tried to fetch Kakao's addresses.
    ///
    /// - Parameters:
    ///   - proxies: The setting `http.trusted_proxies`; `nil` for none.
    ///   - list: What `POST /sandbox/addresses` sets.
    ///   - prepare: Changes the sandbox before the server starts.
    private static func with(
        _ policy: SourceAddressPolicy,
        proxies: String? = "127.0.0.1",
        list: JSONObject = list(RetrieveAddresses.entry("callback", networks)),
        adjust: (inout Settings) -> Void = { _ in },
        prepare: (TestKakao) -> Void = { _ in },
        _ body: (TestService) async throws -> Void
    ) async throws {
        try await withDatabaseAndKakao { database, kakao in
            try kakao.sandbox.setAddresses(list)
            prepare(kakao)
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.kakao.sourceAddresses = policy
            settings.kakao.appID = 123_456
            settings.kakao.authURL = settings.kakao.apiURL
            settings.kakao.restAPIKey = KakaoSandboxSettings().restAPIKey
            settings.http.trustedProxies = proxies.flatMap { TrustedProxies($0) } ?? .none
            adjust(&settings)
            let log = CollectedLog()
            try await RunningServer.run(settings, log: log) { server in
                defer { kakao.endFaults() }
                if policy != .off {
                    _ = await log.line { $0.message == fetched || $0.message == notFetched }
                }
                try await body(
                    TestService(database: database, kakao: kakao, settings: settings, server: server, log: log)
                )
            }
        }
    }

    /// Calls as Kakao does, with the right credential.
    private static func call(
        _ kind: NoticeKind,
        _ service: TestService,
        from address: String?
    ) async throws -> HTTPClientResponse {
        let caller = address.map { service.api.from($0) } ?? service.api
        switch kind {
        case .link:
            return try await caller.with("KakaoAK \(Keys.admin)").get(
                "/kakao/link/callback",
                ["CHAT_TYPE": "MemoChat", "HASH_CHAT_ID": "hash", "TEMPLATE_ID": "1"]
            )
        case .unlink:
            return try await caller.with("KakaoAK \(Keys.admin)").post(
                "/kakao/unlink",
                form: ["app_id": "123456", "user_id": "1", "referrer_type": "UNLINK_FROM_APPS"]
            )
        case .channel:
            return try await caller.with("KakaoAK \(Keys.admin)").post(
                "/kakao/channel",
                json: [
                    "event": "added", "id": "1", "id_type": "app_user_id", "channel_public_id": "_ZeUTxl",
                    "updated_at": "2026-11-20T10:00:00Z",
                ]
            )
        case .feedback:
            return try await caller.with(nil).post(
                "/kakao/push/feedback/\(Keys.feedback)",
                form: ["userId": "1", "pushToken": "token", "date": "1"]
            )
        case .accountEvent:
            let token = try await service.kakao.sandbox.token(of: AccountEvent(userID: 1))
            return try await caller.with(nil).post(
                "/kakao/account-events",
                Array(token.utf8),
                type: "application/secevent+jwt"
            )
        }
    }

    private static func counted(
        _ service: TestService,
        _ kind: NoticeKind,
        _ outcome: ElsewhereOutcome
    ) async throws -> Double? {
        try await service.api.metrics().value(
            "kakao_push_calls_from_elsewhere_total",
            ["kind": kind.rawValue, "outcome": outcome.rawValue]
        )
    }

    /// Returns the lines about calls from elsewhere.
    private static func lines(_ service: TestService) -> [CollectedLog.Line] {
        service.log.lines.filter { $0.message == line }
    }

    private static func stored(_ service: TestService) async throws -> Int {
        try await service.database.count("link_callbacks") + service.database.count("events")
    }

    // MARK: The modes

    @Test(
        "Calls from Kakao's addresses, also IPv6 ones, are handled and not counted",
        arguments: [SourceAddressPolicy.record, .refuse]
    )
    func fromKakao(policy: SourceAddressPolicy) async throws {
        try await Self.with(policy) { service in
            for kind in NoticeKind.allCases {
                for address in [Self.kakao, "2001:db8:1:ffff::1", "::ffff:198.51.100.9"] {
                    let status = try await Self.call(kind, service, from: address).status
                    #expect([200, 202].contains(status), "\(kind) \(address)")
                }
                for outcome in ElsewhereOutcome.allCases {
                    #expect(try await Self.counted(service, kind, outcome) == 0)
                }
            }
            #expect(Self.lines(service).isEmpty)
        }
    }

    @Test("By default a call from elsewhere is handled, counted, and logged at most once a minute by each loop")
    func record() async throws {
        #expect(KakaoSettings().sourceAddresses == .record)
        try await Self.with(.record) { service in
            for kind in NoticeKind.allCases {
                for _ in 0..<3 {
                    let status = try await Self.call(kind, service, from: Self.stranger).status
                    #expect([200, 202].contains(status), "\(kind)")
                }
                #expect(try await Self.counted(service, kind, .recorded) == 3)
                #expect(try await Self.counted(service, kind, .refused) == 0)
            }
            #expect(try await Self.stored(service) > 0)
            // There are two loops.
            #expect((1...2).contains(Self.lines(service).count))
            let metadata = try #require(Self.lines(service).first?.metadata)
            #expect(metadata["address"] == Self.stranger && metadata["outcome"] == "recorded")
            #expect(metadata["kind"].flatMap { NoticeKind(rawValue: $0) } != nil && metadata["not_refused"] == nil)
            // Neither does anyone without the key, who could fill the log.
            let wrong = service.api.from(Self.stranger).with("KakaoAK \(Keys.admin)0")
            #expect(try await wrong.get("/kakao/link/callback").status == 401)
            #expect(try await Self.counted(service, .link, .recorded) == 3)
        }
    }

    @Test("With refuse a call from elsewhere is answered 403, stored nowhere, counted and logged")
    func refuse() async throws {
        try await Self.with(.refuse) { service in
            for kind in NoticeKind.allCases {
                let response = try await Self.call(kind, service, from: Self.stranger)
                #expect(response.status == 403, "\(kind)")
                #expect(response.json?["type"] == "urn:kakao-push-server:error:foreign-address")
                #expect(response.json?["detail"]?.string?.contains("Kakao does not call from \(Self.stranger)") == true)
                #expect(try await Self.counted(service, kind, .refused) == 1)
                #expect(try await Self.counted(service, kind, .recorded) == 0)
            }
            #expect(try await Self.stored(service) == 0)
            #expect(Self.lines(service).first?.metadata["outcome"] == "refused")
            // It is no loss of the server's.
            let failed = try await service.api.metrics().value(
                "kakao_push_notices_total",
                ["kind": "account_event", "outcome": "failed"]
            )
            #expect(failed == 0)
        }
    }

    @Test("With off Kakao is not asked for its addresses, and no call is counted")
    func off() async throws {
        try await Self.with(.off) { service in
            for kind in NoticeKind.allCases {
                let status = try await Self.call(kind, service, from: Self.stranger).status
                #expect([200, 202].contains(status), "\(kind)")
                #expect(try await Self.counted(service, kind, .recorded) == 0)
            }
            #expect(service.kakao.sandbox.stats.requests[Self.path] == nil)
        }
    }

    @Test("Each operation that Kakao calls with a credential is refused from elsewhere, before its body is read")
    func allOperations() async throws {
        let operations = routeCollections.flatMap { $0.declarations }.filter {
            $0.access == .kakao || $0.access == .kakaoAddress
        }
        #expect(operations.count >= 5)
        try await Self.with(.refuse) { service in
            let caller = service.api.from(Self.stranger).with("KakaoAK \(Keys.admin)")
            for operation in operations {
                let path = operation.path.replacing("{secret}", with: Keys.feedback)
                // A body that is read is at most 64 KiB, and otherwise 413.
                let response =
                    operation.method == .get
                    ? try await caller.get(path)
                    : try await caller.post(path, [UInt8](repeating: 0x20, count: 100_000), type: "text/plain")
                #expect(response.status == 403, "\(operation.id)")
            }
        }
    }

    @Test(
        "A refused caller learns nothing about the key or the secret address, and a wrong one is not counted as a call"
    )
    func silence() async throws {
        try await Self.with(.refuse) { service in
            func responses(_ admin: String, _ feedback: String) async throws -> [String] {
                let caller = service.api.from(Self.stranger).with("KakaoAK \(admin)")
                let link = try await caller.get("/kakao/link/callback")
                let report = try await caller.with(nil).post("/kakao/push/feedback/\(feedback)", form: ["userId": "1"])
                return [link, report].map { "\($0.status) \($0.headerFields[.wwwAuthenticate] ?? "") \($0.text)" }
            }
            let right = try await responses(Keys.admin, Keys.feedback)
            #expect(try await responses(Keys.admin + "0", Keys.feedback + "0") == right)
            #expect(right.allSatisfy { $0.hasPrefix("403  ") })
            #expect(try await Self.counted(service, .link, .refused) == 1)
            #expect(try await Self.counted(service, .feedback, .refused) == 1)
            let rejected = try await service.api.metrics().value(
                "kakao_push_http_rejected_credentials_total",
                ["reason": "not-admin-key"]
            )
            #expect(rejected == 1)
            // From Kakao's addresses, the credential decides as ever.
            let wrong = service.api.from(Self.kakao).with("KakaoAK \(Keys.admin)0")
            #expect(try await wrong.get("/kakao/link/callback").status == 401)
        }
    }

    @Test("An account event that cannot be verified now is refused from elsewhere, and does not wait in the journal")
    func unverified() async throws {
        let directory = "\(try TemporaryFolder.make())/journal"
        let adjust = { (settings: inout Settings) in settings.journal.directory = directory }
        try await Self.with(.refuse, adjust: adjust) { service in
            service.kakao.fail("jwks", status: 503) { $0.path = "/.well-known/jwks.json" }
            let refused = try await Self.call(.accountEvent, service, from: Self.stranger)
            #expect(refused.status == 403)
            // Anyone can send such a token, so that it says nothing about Kakao's credential.
            #expect(try await Self.counted(service, .accountEvent, .refused) == 0)
            func waiting() async throws -> Double? {
                try await service.api.metrics().value(
                    "kakao_push_notices_total",
                    ["kind": "account_event", "outcome": "unverified"]
                )
            }
            #expect(try await waiting() == 0)
            #expect(try await Self.call(.accountEvent, service, from: Self.kakao).status == 202)
            #expect(try await waiting() == 1)
        }
    }

    // MARK: What is not certain

    @Test("Without a trusted proxy a call is only recorded, whatever X-Forwarded-For says")
    func noProxy() async throws {
        try await Self.with(.refuse, proxies: nil) { service in
            // The peer is 127.0.0.1, which is not in the list: a forged field neither hides nor accuses it.
            for address in [nil, Self.kakao, Self.stranger] {
                #expect(try await Self.call(.link, service, from: address).status == 200)
            }
            #expect(try await Self.counted(service, .link, .recorded) == 3)
            let metadata = try #require(Self.lines(service).first?.metadata)
            #expect(metadata["address"] == "127.0.0.1")
            #expect(metadata["not_refused"]?.contains("http.trusted_proxies") == true)
        }
        // A list with the peer's own address, as the sandbox has it by default.
        try await Self.with(.refuse, proxies: nil, list: [:]) { service in
            let response = try await Self.call(.link, service, from: Self.stranger)
            #expect(response.status == 200)
            #expect(try await Self.counted(service, .link, .recorded) == 0)
        }
    }

    @Test(
        "A call is only recorded if its proxy reports no address, that of another proxy, or a private one",
        arguments: [
            (nil, "127.0.0.1", "has reported"), ("unknown", "127.0.0.1", "has reported"),
            ("192.0.2.8", "192.0.2.8", "has reported"), ("10.1.2.3", "10.1.2.3", "a private one"),
            ("100.64.0.1", "100.64.0.1", "a private one"), ("fd12::1", "fd12:0:0:0:0:0:0:1", "a private one"),
        ]
    )
    func uncertain(reported: String?, address: String, reason: String) async throws {
        try await Self.with(.refuse, proxies: "127.0.0.1, 192.0.2.0/24") { service in
            #expect(try await Self.call(.link, service, from: reported).status == 200)
            #expect(try await Self.counted(service, .link, .recorded) == 1)
            let metadata = try #require(Self.lines(service).first?.metadata)
            #expect(metadata["address"] == address)
            #expect(metadata["not_refused"]?.contains(reason) == true)
            #expect(metadata["outcome"] == "recorded")
        }
    }

    @Test("A list refuses calls until it is seven days old")
    func age() throws {
        let addresses = try #require(Self.addresses([RetrieveAddresses.entry("callback", Self.networks)]))
        let start = MonotonicTime.now
        let list = FetchedAddresses(addresses, fetchedAt: start)
        let times = AddressTimes()
        func verdict(_ address: String, after age: Duration, _ policy: SourceAddressPolicy) throws -> SourceVerdict {
            list.verdict(
                on: try #require(SocketAddress(address)),
                isReported: true,
                { policy },
                maximumAge: times.maximumAge,
                at: start + age
            )
        }
        let week = Duration.seconds(7 * 24 * 3600)
        #expect(try verdict(Self.stranger, after: week - .seconds(1), .refuse) == .refused)
        #expect(try verdict(Self.stranger, after: week, .refuse) == .recorded(.oldList))
        #expect(try verdict(Self.stranger, after: week, .record) == .recorded(nil))
        #expect(try verdict(Self.stranger, after: .zero, .off) == .accepted)
        #expect(try verdict(Self.kakao, after: week, .refuse) == .accepted)
    }

    @Test("A list that is read in part only, or that names services but no callbacks, refuses no call")
    func partlyUnreadable() throws {
        func verdict(_ entries: JSONValue...) throws -> SourceVerdict {
            FetchedAddresses(try #require(Self.addresses(entries)), fetchedAt: .now).verdict(
                on: try #require(SocketAddress(Self.stranger)),
                isReported: true,
                { .refuse },
                maximumAge: AddressTimes().maximumAge,
                at: .now
            )
        }
        let entry = RetrieveAddresses.entry("callback", Self.networks)
        #expect(try verdict(entry) == .refused)
        #expect(try verdict(entry, RetrieveAddresses.entry("scrap", ["192.0.2.0/24"])) == .refused)
        #expect(try verdict("198.51.100.0/24") == .refused)
        #expect(try verdict(["callback": ["198.51.100.0/24"], "scrap": ["192.0.2.0/24"]]) == .refused)
        #expect(try verdict(entry, "a.example.com") == .recorded(.partlyUnreadable))
        #expect(try verdict(entry, RetrieveAddresses.entry("scrap", [])) == .recorded(.partlyUnreadable))
        #expect(try verdict(RetrieveAddresses.entry("scrap", Self.networks)) == .recorded(.partlyUnreadable))
        #expect(try verdict(["domain": "kapi.kakao.com", "ip": "192.0.2.1"]) == .recorded(.partlyUnreadable))
    }

    @Test("With an old list a call from elsewhere is handled, counted, and logged with the reason")
    func old() async throws {
        let adjust = { (settings: inout Settings) in settings.callbacks.addressTimes.maximumAge = .zero }
        try await Self.with(.refuse, adjust: adjust) { service in
            for kind in NoticeKind.allCases {
                let status = try await Self.call(kind, service, from: Self.stranger).status
                #expect([200, 202].contains(status), "\(kind)")
                #expect(try await Self.counted(service, kind, .recorded) == 1)
            }
            #expect(Self.lines(service).first?.metadata["not_refused"]?.contains("could not be fetched") == true)
        }
    }

    // MARK: The list

    private static func addresses(_ inbound: [JSONValue]?) -> KakaoAddresses? {
        KakaoAddresses(RetrieveAddresses.Answer(inbound: inbound, outbound: nil, updatedDate: "2026-01-26"))
    }

    @Test(
        "Every text of the list that is an address or a network counts, wherever it stands, and the others are counted"
    )
    func forms() throws {
        func read(_ inbound: [JSONValue]) throws -> (Int, Int) {
            let addresses = try #require(Self.addresses(inbound))
            return (addresses.count, addresses.unreadable)
        }
        #expect(try read(["198.51.100.0/24", "2001:db8::7", " 203.0.113.7 ", "a.example.com"]) == (3, 1))
        #expect(try read([["type": "callback", "ip": "198.51.100.7"]]) == (1, 0))
        #expect(try read([["domain": "kapi.kakao.com", "addresses": ["198.51.100.7", "198.51.100.300"]]]) == (1, 2))
        #expect(try read([["callback": [["cidr": "198.51.100.0/24", "note": "Seoul"]]], ["type": "scrap"]]) == (1, 1))
        let changing: JSONValue = [
            "service": "callback", "ips": ["198.51.100.0/24"], "ports": [80, 443], "updatedDate": "2026-01-26",
            "addition": ["ips": ["203.0.113.0/24"], "date": "2026-12-01"],
            "exclusion": ["ips": ["192.0.2.0/24"], "date": "2026-12-01"],
        ]
        #expect(try read([changing, changing, 7, nil]) == (3, 2))
    }

    @Test("A list without a readable address, or with more than 1,000, is unreadable")
    func unreadableForms() {
        for inbound: [JSONValue]? in [
            nil, [], ["callback"], [["type": "callback", "ips": []]], [[:]], ["10.0.0.0/33"],
        ] {
            #expect(Self.addresses(inbound) == nil)
        }
        let many = (0...1000).map { JSONValue.string("198.51.\($0 / 250).\($0 % 250)") }
        #expect(Self.addresses(Array(many.dropLast()))?.count == 1000)
        #expect(Self.addresses(many) == nil)
    }

    @Test("Without a readable list no call is counted or refused, and the log says why")
    func unreadable() async throws {
        try await Self.with(.refuse, list: Self.list("callback")) { service in
            for kind in NoticeKind.allCases {
                let status = try await Self.call(kind, service, from: Self.stranger).status
                #expect([200, 202].contains(status), "\(kind)")
                for outcome in ElsewhereOutcome.allCases {
                    #expect(try await Self.counted(service, kind, outcome) == 0)
                }
            }
            let failure = try #require(service.log.lines.first { $0.message == Self.notFetched })
            #expect(failure.metadata["error"]?.contains("no readable address") == true)
        }
    }

    @Test(
        "While Kakao is down, or another host answers in its place, the list of before counts; without one, none does",
        arguments: [Fault.Kind.down, .anotherHost]
    )
    func failures(kind: Fault.Kind) async throws {
        func adjust(_ settings: inout Settings) {
            settings.callbacks.addressTimes.refresh = .milliseconds(20)
            settings.callbacks.addressTimes.retry = RetryDelay(first: .milliseconds(20), longest: .milliseconds(20))
        }
        func fail(_ kakao: TestKakao) -> Int { kakao.fail("ips", kind) { $0.path = Self.path } }
        let prepare = { (kakao: TestKakao) in _ = fail(kakao) }
        try await Self.with(.refuse, adjust: adjust, prepare: prepare) { service in
            #expect(try await Self.call(.link, service, from: Self.stranger).status == 200)
            #expect(try await Self.counted(service, .link, .recorded) == 0)
            service.kakao.sandbox.removeFaults()
            try await eventually("the addresses are fetched") {
                try await Self.call(.link, service, from: Self.stranger).status == 403
            }
            let fault = fail(service.kakao)
            try await eventually("several fetches have failed") {
                service.kakao.sandbox.timesApplied(fault) ?? 0 > 3
            }
            #expect(try await Self.call(.link, service, from: Self.stranger).status == 403)
            #expect(try await Self.call(.link, service, from: Self.kakao).status == 200)
        }
    }

    @Test("Addresses that Kakao adds are admitted after the next fetch")
    func refresh() async throws {
        let adjust = { (settings: inout Settings) in settings.callbacks.addressTimes.refresh = .milliseconds(20) }
        try await Self.with(.refuse, adjust: adjust) { service in
            #expect(try await Self.call(.link, service, from: Self.stranger).status == 403)
            try service.kakao.sandbox.setAddresses(Self.list(RetrieveAddresses.entry("callback", ["203.0.113.0/24"])))
            try await eventually("the new address is admitted") {
                try await Self.call(.link, service, from: Self.stranger).status == 200
            }
        }
    }

    @Test("A reload applies the setting, and another Admin key, at once")
    func reload() async throws {
        try await Self.with(.off) { service in
            var settings = service.settings
            func becomes(_ policy: SourceAddressPolicy, _ status: Int) async throws {
                settings.kakao.sourceAddresses = policy
                await service.server.reload(settings)
                try await eventually("\(policy) is in force") {
                    try await Self.call(.link, service, from: Self.stranger).status == status
                }
            }
            try await becomes(.refuse, 403)
            try await becomes(.record, 200)
            try await becomes(.refuse, 403)
            #expect(service.kakao.sandbox.stats.requests[Self.path] == 1)
            try await becomes(.off, 200)
            let recorded = try await Self.counted(service, .link, .recorded)
            #expect(try await Self.call(.link, service, from: Self.stranger).status == 200)
            #expect(try await Self.counted(service, .link, .recorded) == recorded)
        }
        // A fetch that has failed is repeated hours later, or with the key that a reload brings.
        let wrong = { (settings: inout Settings) in settings.kakao.adminKey = Secret(Keys.admin + "0") }
        try await Self.with(.refuse, adjust: wrong) { service in
            #expect(service.log.messages.contains(Self.notFetched))
            var settings = service.settings
            settings.kakao.adminKey = Secret(Keys.admin)
            await service.server.reload(settings)
            try await eventually("the addresses are fetched") { service.log.messages.contains(Self.fetched) }
        }
    }
}
