import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Locking
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Settings

/// Calls of phones and pages with the app's own keys, as Kakao's SDKs make them.
@Suite(.timeLimit(.minutes(5))) struct AppKeyTests {
    private static let templates = "/v2/api/kakaolink/talk/template"
    private static let images = "/v2/api/talk/message/image"
    private static let nativeKey = "sandbox-native-app-key"
    private static let javaScriptKey = "sandbox-javascript-key"
    private static let ka =
        "sdk/2.27.3 sdk_type/swift os/ios-17.0 lang/ko-KR res/390x844 device/iPhone origin/com.example.app app_ver/1.0"
    /// The fields of a valid template.
    private static let fields: KeyValuePairs<String, String> = [
        "link_ver": "4.0",
        "template_object": #"{"object_type":"text","text":"Hi","link":{"web_url":"https://example.com"}}"#,
        "scheme_params": "{}",
    ]

    /// Returns a caller with an app key, as an SDK calls.
    private static func phone(_ api: TestClient, key: String = nativeKey, ka: String? = AppKeyTests.ka) -> TestClient {
        var phone = api.with("KakaoAK \(key)")
        phone.headerFields[.ka] = ka
        return phone
    }

    private static func withPhones(
        _ adjust: (inout Settings) -> Void = { _ in },
        _ body: (TestService) async throws -> Void
    ) async throws {
        try await withAppKeyCalls(
            { settings in
                settings.kakao.javaScriptKey = javaScriptKey
                settings.http.trustedProxies = TrustedProxies("127.0.0.1") ?? .none
                adjust(&settings)
            },
            body
        )
    }

    /// Validates a template, and returns the status.
    private static func validate(_ phone: TestClient) async throws -> Int {
        try await phone.post("\(templates)/default", form: fields).status
    }

    // MARK: Relaying

    @Test("Calls of iOS and of Android reach Kakao with the phone's key and KA, and with none of the server's keys")
    func credentials() async throws {
        struct Received: Equatable {
            let authorization: String?
            let ka: String?
        }
        let received = Locked<[Received]>([])
        func route(_ router: inout Router) {
            router.on(.post, "\(Self.templates)/default") { request in
                received.withLock {
                    $0.append(Received(authorization: request[.authorization], ka: request[.ka]))
                }
                return .json(
                    #"{"template_id":1,"template_msg":{},"warning_msg":{},"argument_msg":{}}"#.utf8.map(\.self)
                )
            }
        }
        try await withStubServer(route) { url in
            try await Self.withPhones {
                $0.kakao.apiURL = url
            } _: { service async throws in
                for key in [Self.nativeKey, Self.javaScriptKey] {
                    let phone = Self.phone(service.api, key: key)
                    // iOS posts a form, the others send a query.
                    #expect(try await Self.validate(phone) == 200)
                    #expect(try await phone.get("\(Self.templates)/default", Self.fields).status == 200)
                    let expected = Received(authorization: "KakaoAK \(key)", ka: Self.ka)
                    #expect(received.withLock { $0 } == [expected, expected])
                    received.withLock { $0 = [] }
                }
                // An operator's call has the server's.
                #expect(try await service.api.post("\(Self.templates)/default", form: Self.fields).status == 200)
                let expected = Received(authorization: "KakaoAK \(Self.nativeKey)", ka: "sdk/2.27.3 os/ios-17.0")
                #expect(received.withLock { $0 } == [expected])
            }
        }
    }

    @Test("Phones validate templates and channels, and keep images, but delete none")
    func calls() async throws {
        try await Self.withPhones { service in
            let phone = Self.phone(service.api)
            #expect(try await Self.validate(phone) == 200)
            let custom: KeyValuePairs = ["link_ver": "4.0", "template_id": "7"]
            #expect(try await phone.get("\(Self.templates)/validate", custom).status == 200)
            let page: KeyValuePairs = ["link_ver": "4.0", "request_url": "https://example.com"]
            #expect(try await phone.post("\(Self.templates)/scrap", form: page).status == 200)
            let channel: KeyValuePairs = [
                "quota_properties": #"{"uri":"/sdk/channel/add","channel_public_id":"_ZeUTxl"}"#
            ]
            // The SDK for iOS takes an empty body for a failure.
            #expect(try await phone.post("/v1/app/validate/sdk", form: channel).text == "{}")
            let upload = MultipartBody(fields: [("secure_resource", "true")], files: [("file", TestImage.png())])
            let image = try await phone.post("\(Self.images)/upload", upload.bytes, type: upload.type)
            #expect(image.status == 200)
            let url = try #require(image.json?["infos"]?["original"]?["url"]?.string)
            #expect(try await phone.post("\(Self.images)/scrap", form: ["image_url": url]).status == 200)
            #expect(try await phone.delete("\(Self.images)/delete?image_url=\(url)").status == 401)
            #expect(service.kakao.sandbox.stats.requests["\(Self.images)/delete"] == nil)
            // What a phone does is in no audit log.
            #expect(try await service.database.count("audit_records") == 0)
        }
    }

    @Test("A parameter that Kakao's SDK for Flutter sends as a bare name is absent, here and at the sandbox")
    func bareNames() async throws {
        try await Self.withPhones { service in
            let template =
                "%7B%22object_type%22%3A%22text%22%2C%22text%22%3A%22Hi%22%2C%22link%22%3A%7B%22web_url%22%3A%22https%3A%2F%2Fa.kr%22%7D%7D"
            for url in [service.api.url, service.kakao.sandbox.url] {
                let phone = Self.phone(TestClient(url: url, authorization: nil, checksContract: url == service.api.url))
                for query in [
                    "default?link_ver=4.0&template_object=\(template)&scheme_params",
                    "validate?link_ver=4.0&template_id=7&template_args&scheme_params",
                    "validate?link_ver=4.0&template_id=7&template_args=&scheme_params=",
                ] {
                    let answer = try await phone.get("\(Self.templates)/\(query)")
                    #expect(answer.status == 200, "\(url) \(query): \(answer.text)")
                }
                // A required one is missing.
                #expect(try await phone.get("\(Self.templates)/default?link_ver=4.0&template_object").status == 400)
            }
        }
    }

    @Test("Elsewhere, and without the setting, an app key is rejected, but does not make its address wait")
    func rejected() async throws {
        try await Self.withPhones { service async throws in
            for _ in 0..<8 {
                for (path, api) in [("/v1/pushes", service.api), ("/v2/user/me", service.api)] {
                    #expect(try await Self.phone(api).get(path).status == 401)
                }
                let bearer = service.api.with("Bearer \(Self.nativeKey)")
                #expect(try await bearer.post("\(Self.templates)/default", form: Self.fields).status == 401)
            }
            #expect(try await service.api.with("Bearer kps_unknown").get("/v1/pushes").status == 401)
            #expect(service.kakao.sandbox.stats.requests.isEmpty)
        }
        try await withService {
            $0.kakao.nativeAppKey = Self.nativeKey
        } _: { service in
            // The answer does not say whether a key is right: neither an app's nor an operator's.
            for key in [Self.nativeKey, "another-key", Keys.operator] {
                let phone = Self.phone(service.api, key: key)
                let answer = try await phone.post("\(Self.templates)/default", form: Self.fields)
                #expect(answer.status == 403 && answer.problem == "not-configured", "\(answer.text)")
                #expect(answer.json?["code"] == -3)
                let detail = "Calls with an app key are switched off. Set `sharing.app_key_calls`."
                #expect(answer.json?["detail"]?.string == detail)
            }
            #expect(service.kakao.sandbox.stats.requests.isEmpty)
        }
    }

    @Test("A call without KA, with a long one or with other than ASCII in it does not reach Kakao")
    func agents() async throws {
        try await Self.withPhones { service in
            for ka in [nil, String(repeating: "a", count: 1025), "sdk/2 device/한글"] {
                let answer = try await Self.phone(service.api, ka: ka).post(
                    "\(Self.templates)/default",
                    form: Self.fields
                )
                #expect(answer.status == 401)
                #expect(answer.json?["code"] == -401)
                #expect(answer.json?["detail"]?.string?.contains("KA") == true)
            }
            #expect(service.kakao.sandbox.stats.requests.isEmpty)
            #expect(try await Self.validate(Self.phone(service.api, ka: String(repeating: "a", count: 1024))) == 200)
        }
    }

    @Test("Kakao's rejection of a phone's key or KA is the phone's, and says nothing about the server's key")
    func mismatch() async throws {
        try await Self.withPhones { service in
            var fault = Fault(.status)
            fault.path = "\(Self.templates)/default"
            fault.status = 401
            fault.code = -401
            fault.message = "domain mismatched! key=\(Self.nativeKey)"
            service.kakao.sandbox.add(fault)
            let answer = try await Self.phone(service.api).post("\(Self.templates)/default", form: Self.fields)
            #expect(answer.status == 401)
            #expect(answer.json?["code"] == -401)
            #expect(answer.json?["msg"]?.string?.hasPrefix("domain mismatched!") == true)
            #expect(!answer.text.contains(Self.nativeKey))
            let ofServer = try await service.api.post("\(Self.templates)/default", form: Self.fields)
            #expect(ofServer.problem == "server-refused-by-kakao")
            service.kakao.sandbox.removeFaults()
            #expect(try await service.api.get("/v1/status").json?["kakao"]?["state"] != "refusing")
        }
    }

    @Test("Beside a port for operators, phones call the public port, where operators' keys are not accepted")
    func publicPort() async throws {
        try await Self.withPhones {
            $0.operatorPort = 0
        } _: { service async throws in
            let open = TestClient(url: service.server.url)
            #expect(try await Self.validate(Self.phone(open)) == 200)
            #expect(try await Self.validate(open) == 401)
            #expect(try await Self.validate(service.api) == 200)
        }
    }

    // MARK: Limits

    @Test("A network has a number of calls a day, and takes nothing from others when it has used them up")
    func networks() async throws {
        try await Self.withPhones {
            $0.kakao.appKeyCallsPerDayPerNetwork = 2
            $0.kakao.appKeyCallsPerMinute = 4
        } _: { service in
            let (phone, other) = (Self.phone(service.api.from("10.0.0.1")), Self.phone(service.api.from("10.0.0.2")))
            for _ in 0..<2 { #expect(try await Self.validate(phone) == 200) }
            for _ in 0..<4 {
                let answer = try await phone.post("\(Self.templates)/default", form: Self.fields)
                #expect(answer.status == 429)
                let wait = try #require(answer.headerFields[.retryAfter].flatMap { Int($0) })
                #expect((40_000...43_200).contains(wait))
            }
            for _ in 0..<2 { #expect(try await Self.validate(other) == 200) }
            #expect(service.kakao.sandbox.stats.requests["\(Self.templates)/default"] == 4)
            // The operators' calls are not limited.
            for _ in 0..<5 { #expect(try await Self.validate(service.api.from("10.0.0.1")) == 200) }
        }
    }

    @Test("All networks together have a number of calls a minute; calls without KA count too")
    func everyone() async throws {
        try await Self.withPhones {
            $0.kakao.appKeyCallsPerMinute = 3
        } _: { service in
            let start = ContinuousClock.now
            #expect(try await Self.validate(Self.phone(service.api.from("10.0.1.1"), ka: nil)) == 401)
            var (admitted, rejected) = (1, 0)
            for index in 0..<20 {
                let phone = Self.phone(service.api.from("10.0.0.\(index)"))
                let answer = try await phone.post("\(Self.templates)/default", form: Self.fields)
                if answer.status == 200 {
                    admitted += 1
                } else {
                    rejected += 1
                    #expect(answer.status == 429)
                    #expect(answer.problem == "too-many-requests")
                    #expect(answer.headerFields[.retryAfter] != nil)
                }
            }
            #expect(rejected > 0)
            #expect(admitted <= 3 + Int((ContinuousClock.now - start) / .seconds(20)))
            #expect(try await Self.validate(service.api) == 200)
        }
    }

    @Test("Slow uploads of phones leave the operators their places")
    func uploads() async throws {
        try await Self.withPhones {
            $0.http.bodyTimeout = .seconds(300)
            $0.http.minimumBytesPerSecond = 0
        } _: { service in
            let upload = MultipartBody(files: [("file", TestImage.png())])
            let phone = Self.phone(service.api)
            var held: [RawUpload] = []
            for _ in 0..<4 {
                let raw = try RawUpload(
                    phone,
                    "\(Self.images)/upload",
                    length: upload.bytes.count,
                    method: "POST",
                    type: upload.type,
                    asksFirst: true
                )
                held.append(raw)
            }
            var statuses: [String] = []
            for raw in held {
                let head = try #require(await raw.receive(4096))
                statuses.append(String(decoding: head.dropFirst(9).prefix(3), as: UTF8.self))
            }
            #expect(statuses.sorted() == ["100", "100", "503", "503"])
            let own = try await service.api.post("\(Self.images)/upload", upload.bytes, type: upload.type)
            #expect(own.status == 200, "\(own.text)")
        }
    }
}
