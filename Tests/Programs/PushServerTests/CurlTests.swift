import Endpoints
import HTTPClient
import JSON
import KakaoSandbox
import Server
import ServiceTesting
import Settings
import Subprocess
import SystemPackage
import TestSupport
import Testing

/// Tests with `curl`, a client that is independent of our own.
@Suite(.timeLimit(.minutes(5))) struct CurlTests {
    /// Registers with a form and with JSON, lists devices, sends with both, and deregisters.
    private static func story(_ api: TestClient, _ kakao: TestKakao) async throws {
        let url = api.url
        let form = try await curl([
            "\(url)/v1/push/register", "-d", "uuid=1", "-d", "device_id=phone", "-d", "push_type=gcm",
            "--data-urlencode", "push_token=a:b+c 한",
        ])
        #expect([form.status, form.body] == ["200", "30"])
        let json = try await curl([
            "\(url)/v2/push/register", "-H", "Content-Type: application/json", "-d",
            #"{"uuid":"2","device_id":"phone","push_type":"apns","push_token":"apple"}"#,
        ])
        #expect([json.status, json.body] == ["200", "30"])
        #expect(try await kakao.tokens(of: 1) == ["phone gcm a:b+c 한"])
        #expect(try await kakao.tokens(of: 2) == ["phone apns apple"])

        let tokens = try await curl(["-G", "\(url)/v1/push/tokens", "--data-urlencode", "uuids=[1,2]"])
        #expect(tokens.status == "200")
        #expect(try JSONValue(parsing: tokens.body).array?.map { $0["push_token"] } == ["a:b+c 한", "apple"])

        let sends = [
            try await curl([
                "\(url)/v1/push/send", "-d", "uuids=[1,2]", "--data-urlencode",
                #"push_message={"for_gcm":{"custom_field":{"marker":"m"}},"for_apns":{"message":"안녕"}}"#,
            ]),
            // Waits for `100 Continue` before it sends the body.
            try await curl([
                "\(url)/v2/push/send", "-H", "Content-Type: application/json", "-H", "Expect: 100-continue", "-d",
                #"{"uuids":["1","2"],"push_message":{"for_fcm":{"custom_field":{"marker":"m"}}}}"#,
            ]),
        ]
        for send in sends {
            #expect(send.status == "200")
            let heads = send.head + "\r\n" + send.body
            let name = "location: "
            let location = heads.split(separator: "\r\n").first { $0.lowercased().hasPrefix(name) }
            try await api.waitUntilDone(String(try #require(location).dropFirst(name.count)))
        }
        // The second message has no part for an iPhone, the only device of user 2. The server leaves that to Kakao.
        #expect(kakao.sandbox.reached(marker: "m").times == 4)

        let wrong = try await curl(["\(url)/v1/push/register", "-d", "uuid=1.0"])
        #expect(wrong.status == "400")
        #expect(try JSONValue(parsing: wrong.body)["field"] == "uuid")
        let gone = try await curl([
            "\(url)/v1/push/deregister", "-d", "uuid=1", "-d", "device_id=phone", "-d", "push_type=gcm",
        ])
        #expect([gone.status, gone.body] == ["200", ""])
        #expect(try await kakao.tokens(of: 1).isEmpty)
    }

    @Test("The walkthrough with curl works with Kakao over plain HTTP")
    func plain() async throws {
        try await withService { try await Self.story($0.api, $0.kakao) }
    }

    @Test("The walkthrough with curl works with Kakao over verified TLS")
    func tls() async throws {
        var sandbox = KakaoSandboxSettings()
        sandbox.tls = true
        let file = "\(try TemporaryFolder.make())/kakao.pem"
        sandbox.certificateFile = file
        // The server reads the file when it is created, after the sandbox has written it.
        let adjust = { (settings: inout Settings) in settings.kakao.caCertificateFile = file }
        try await withService(adjust, sandbox: sandbox) { service in
            #expect(service.settings.kakao.apiURL.hasPrefix("https://"))
            try await Self.story(service.api, service.kakao)
        }
    }

    @Test("A server with a certificate serves HTTPS, and its return_url is an https URL")
    func ownCertificate() async throws {
        let folder = try TemporaryFolder.make()
        let made = try await Subprocess.run(
            .name("openssl"),
            arguments: [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "\(folder)/key.pem", "-out",
                "\(folder)/certificate.pem",
            ],
            output: .discarded,
            error: .discarded
        )
        try #require(made.terminationStatus.isSuccess)
        try await withDatabaseAndKakao { database, kakao in
            var settings = Settings.test(database.url, kakao: kakao.sandbox.url)
            settings.certificateFile = "\(folder)/certificate.pem"
            settings.privateKeyFile = "\(folder)/key.pem"
            try await RunningServer.with(settings) { plain in
                let url = "https\(plain.url.dropFirst("http".count))"
                let trusted = ["--cacert", "\(folder)/certificate.pem"]
                let register = [
                    "\(url)/v1/push/register", "-d", "uuid=1", "-d", "device_id=phone", "-d", "push_type=gcm", "-d",
                    "push_token=token",
                ]
                let answer = try await curl(trusted + register)
                #expect([answer.status, answer.body] == ["200", "30"])
                let message = #"push_message={"for_gcm":{}}"#
                let sent = try await curl(trusted + ["\(url)/v1/push/send", "-d", "uuids=[1]", "-d", message])
                #expect(sent.status == "200")
                try await eventually("Kakao has the push") { kakao.sandbox.stats.sends == 1 }
                let payload = kakao.sandbox.deliveries().first?.payload
                let address = "\(url)/kakao/push/feedback/\(Keys.feedback)"
                #expect(payload == Array(#"{"return_url":"\#(address)"}"#.utf8))
                // A client that does not trust the certificate gets no response.
                #expect(try await curl(register).status == "000")
            }
            settings.privateKeyFile = "\(folder)/none.pem"
            await #expect(throws: SettingsError.self) { try await RunningServer.with(settings) { _ in } }
        }
    }

    @Test("Without a trusted certificate, Kakao gets no request: no token, no message, no Admin key")
    func untrusted() async throws {
        var sandbox = KakaoSandboxSettings()
        sandbox.tls = true
        try await withService(sandbox: sandbox) { service in
            let answer = try await curl([
                "\(service.api.url)/v1/push/register", "-d", "uuid=1", "-d", "device_id=phone", "-d", "push_type=gcm",
                "-d", "push_token=token",
            ])
            #expect([answer.status, answer.body] == ["200", "30"])
            let push = try await service.push([1])
            // Both calls are retried.
            try await eventually("both calls were attempted twice") {
                let devices = try await service.database.count("devices WHERE attempts >= 2")
                let batches = try await service.database.count("\(claimedBatches) WHERE attempts >= 2")
                return devices == 1 && batches == 1
            }
            #expect(try await service.api.state(push) == "sending")
            #expect(service.kakao.sandbox.stats.requests.isEmpty)
        }
    }
}
