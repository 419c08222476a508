import EventLoop
import FoundationEssentials
import Glibc
import HTTPClient
import HTTPTypes
import KakaoSandbox
import Net
import TestSupport
import Testing

/// The sandbox over HTTPS, and as a program.
@Suite(.timeLimit(.minutes(1))) struct ServingTests {
    /// Passes a unique file name to `body`, and deletes the file afterwards.
    private static func withTemporaryFile<Result>(_ body: (String) async throws -> Result) async throws -> Result {
        let path = "/tmp/kakao-sandbox-\(getpid())-\(UInt64.random(in: .min ... .max)).pem"
        defer { unlink(path) }
        return try await body(path)
    }

    @Test("Over HTTPS only clients with its certificate trust the sandbox")
    func tls() async throws {
        try await Self.withTemporaryFile { file in
            var settings = KakaoSandboxSettings()
            settings.tls = true
            settings.certificateFile = file
            // This client was created before the sandbox wrote the file; the client below reads the file.
            try await withSandbox(settings) { kakao in
                #expect(kakao.sandbox.url.hasPrefix("https://127.0.0.1:"))
                let error = await failure { try await kakao.register(1, "a") }
                #expect(error?.code == .tls)
                #expect(error?.mayHaveBeenSent == false)

                let group = try EventLoopGroup(count: 1)
                defer { group.shutdown() }
                let client = HTTPClient(
                    settings: HTTPClientSettings(trust: try TrustStore(file: file)),
                    loop: group.loops[0]
                )
                let trusting = Fixture(sandbox: kakao.sandbox, client: client)
                #expect(try await trusting.register(1, "a").text == "30")
                await client.shutdown()
            }
        }
    }

    @Test("With the file of a key, the sandbox uses the certificate that its file has")
    func givenCertificate() async throws {
        try await Self.withTemporaryFile { file in
            try await Self.withTemporaryFile { keyFile in
                let made = try SelfSignedCertificate()
                try Data(made.certificate).write(to: URL(filePath: file))
                try Data(made.privateKey).write(to: URL(filePath: keyFile))
                let program = try await RunningProgram.sandbox(
                    "--port",
                    "0",
                    "--tls",
                    "--certificate-file",
                    file,
                    "--private-key-file",
                    keyFile
                )
                try await program.whileRunning {
                    let address = "\(try await program.url())/sandbox/stats"
                    let result = try await Program.run(["curl", "-sS", "--cacert", file, address])
                    #expect(result.status == 0, "\(result.text)")
                    #expect(FileManager.default.contents(atPath: file) == Data(made.certificate))
                }
            }
        }
    }

    @Test("Its URL and its certificate have the name by which clients reach it, and Android's emulator trusts it")
    func name() async throws {
        var settings = KakaoSandboxSettings()
        settings.host = "0.0.0.0"
        settings.name = "127.0.0.3"
        settings.tls = true
        try await withSandbox(settings) { kakao in
            let port = kakao.sandbox.port
            #expect(kakao.sandbox.url == "https://127.0.0.3:\(port)")
            try await Self.withTemporaryFile { file in
                try Data(#require(kakao.sandbox.certificate)).write(to: URL(filePath: file))
                let address = "https://10.0.2.2:\(port)/sandbox/stats"
                for options in [["\(kakao.sandbox.url)/sandbox/stats"], ["--connect-to", "::127.0.0.1:", address]] {
                    let result = try await Program.run(["curl", "-sS", "--cacert", file] + options)
                    #expect(result.status == 0, "\(result.text)")
                }
            }
        }
    }

    @Test(
        "The program prints its URL when it is ready, serves, and exits with 0 on a signal",
        arguments: [SIGTERM, SIGINT]
    )
    func command(signal: Int32) async throws {
        let program = try await RunningProgram.sandbox(
            "--port",
            "0",
            "--admin-key",
            "key",
            "--token-lifetime-days",
            "-1"
        )
        try await program.whileRunning {
            let url = try await program.url()
            let group = try EventLoopGroup(count: 1)
            defer { group.shutdown() }
            let client = HTTPClient(loop: group.loops[0])
            var form = FormBody()
            for (name, value) in ["uuid": "1", "device_id": "d", "push_type": "gcm", "push_token": "t"] {
                form.append(name, value)
            }
            let response = try await client.send(
                HTTPClientRequest(
                    method: .post,
                    url: url + "/v1/push/register",
                    headerFields: [.authorization: "KakaoAK key", .contentType: FormBody.contentType],
                    body: form.bytes
                )
            )
            #expect(response.text == "-1")
            await client.shutdown()
            program.send(signal)
            #expect(await program.ended() == .exited(0))
        }
    }

    @Test("A second sandbox on the same port fails to start instead of sharing it")
    func portTaken() async throws {
        let first = try await RunningProgram.sandbox("--port", "0")
        try await first.whileRunning {
            let port = try #require(try await first.url().split(separator: ":").last)
            let second = try await RunningProgram.sandbox("--port", String(port))
            #expect(await second.ended() == .exited(1))
            #expect(!second.lines.contains { $0.hasPrefix("kakao-sandbox is ready") })
        }
    }
}

extension RunningProgram {
    fileprivate static func sandbox(_ arguments: String...) async throws -> RunningProgram {
        try await start("kakao-sandbox", arguments, environment: [:])
    }

    /// Waits until the program is ready, and returns the URL that it prints.
    fileprivate func url() async throws -> String {
        let prefix = "kakao-sandbox is ready at "
        var line: String?
        try await eventually("the sandbox is ready") {
            line = lines.first { $0.hasPrefix(prefix) }
            return line != nil
        }
        return String(line?.dropFirst(prefix.count) ?? "")
    }
}
