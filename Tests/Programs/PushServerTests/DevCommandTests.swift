import EventLoop
import FoundationEssentials
import Glibc
import HTTPClient
import HTTPTypes
import JSON
import Net
import ServiceTesting
import TestSupport
import Testing

@testable import push_server

/// Tests of `push-server dev`, as a newcomer runs it.
@Suite(.timeLimit(.minutes(5))) struct DevCommandTests {
    /// Runs a script as a new shell that has read only `dev.env`.
    private static func shell(_ folder: String, _ script: String) async throws -> Program.Result {
        let text = "cd \(folder)/..\n. \(folder)/dev.env\n\(script)"
        return try await Program.run(["bash", "-euo", "pipefail", "-c", text], environment: ["PATH": "/usr/bin:/bin"])
    }

    @Test("After . dev.env, each kind of command works in a new shell, and doctor finds nothing wrong")
    func commands() async throws {
        let folder = try TemporaryFolder.make() + "/local"
        try await DevServer.with(in: folder, environment: ["PUSHES_TESTERS": "1234", "KAKAO_APP_NAME": "it's"]) { _ in
            for command in [
                "status", "health", "doctor", "migrate", "keys create --name shop --scope send", "keys list",
                "pushes list", "users pushes 1234", "accounts list", "accounts rotate-key", "messages list",
                "sender stop --reason test", "sender start", "openapi", "settings",
            ] {
                let result = try await Self.shell(folder, "push-server \(command)")
                #expect(result.status == 0, "push-server \(command): \(result.text)")
                guard command == "doctor" else { continue }
                #expect(!result.text.split(separator: "\n").contains { $0.hasPrefix("wrong") }, "\(result.text)")
                #expect(result.text.contains(/ok +http.public_url +http:\/\/127.0.0.1:\d+, for the sandbox/))
                #expect(result.text.contains(/ok +callbacks/), "\(result.text)")
            }
            // Settings of the environment in which dev was started are in the file, too.
            let given = try await Self.shell(folder, "printenv PUSHES_TESTERS KAKAO_APP_NAME")
            #expect(given.text == "1234\nit's\n")
        }
    }

    @Test("dev has a key for shares, which stays the same in its folder")
    func shares() async throws {
        let folder = try TemporaryFolder.make() + "/local"
        try await DevServer.with(in: folder) { dev in
            let api = try dev.api
            let share = try await api.post(
                "/v1/link/shares",
                json: ["template": ["object_type": "text", "text": "Hi", "link": ["web_url": "https://a.kr"]]]
            )
            #expect(share.status == 201, "\(share.text)")
            let key = FileManager.default.contents(atPath: "\(folder)/sharing-signing.key")
            #expect(key.map { String(decoding: $0, as: UTF8.self) } == dev.variables["SHARING_SIGNING_KEY"])
        }
    }

    @Test("A second dev in a folder names the process and the addresses of the first, and leaves its file alone")
    func second() async throws {
        let folder = try TemporaryFolder.make() + "/local"
        try await DevServer.with(in: folder) { dev in
            let file = FileManager.default.contents(atPath: "\(folder)/dev.env")
            let second = try await DevServer.process(in: folder)
            #expect(await second.ended() == .exited(EX_CONFIG))
            let line = try #require(second.lines.last)
            #expect(line.contains("already runs here as process \(dev.process.processIdentifier),"), "\(line)")
            for name in ["SERVER_URL", "SANDBOX_URL"] {
                let url = try #require(dev.variables[name])
                #expect(line.contains(url), "\(line)")
            }
            #expect(FileManager.default.contents(atPath: "\(folder)/dev.env") == file)
            let ready = try await dev.api.get("/readyz")
            #expect(ready.status == 200)
        }
    }

    @Test(
        "dev names the address of the page, without a key unless a terminal shows it; operators reach the sandbox through it"
    )
    func page() async throws {
        let folder = try TemporaryFolder.make() + "/local"
        try await DevServer.with(in: folder) { dev in
            var api = try dev.api
            api.checksContract = false
            let key = try #require(dev.variables["OPERATOR_KEY"])
            let line = "Open  \(api.url)/ui/   ("
            try await eventually("dev names the page") { dev.process.lines.contains { $0.contains(line) } }
            #expect(!dev.process.lines.contains { $0.contains(key) })
            #expect(try await api.with(nil).get("/ui/").text.contains("<html data-sandbox "))
            let share = try await api.post("/sandbox/link/share", json: ["args": ["order_id": "7"]])
            #expect(share.json?["status"] == 200, "\(share.text)")
            #expect(try await api.get("/sandbox/deliveries?limit=1").status == 200)
            #expect(try await api.delete("/sandbox/faults").status == 204)
            #expect(try await api.with(nil).get("/sandbox/stats").status == 401)
            let created = try await api.post("/v1/keys", json: ["name": "kim", "role": "backend"])
            let other = try #require(created.json?["key"]?.string)
            #expect(try await api.with("Bearer \(other)").get("/sandbox/stats").problem == "missing-scope")
        }
    }

    @Test("The sandbox of dev calls the server as Kakao does: unlinks, account events, shared messages, failed tokens")
    func callbacks() async throws {
        let folder = try TemporaryFolder.make() + "/local"
        try await DevServer.with(in: folder) { dev in
            let (api, sandbox) = (try dev.api, try dev.sandbox)
            // Nothing was read before the migrations ran.
            #expect(!dev.process.lines.contains { $0.contains("ERROR") }, "\(dev.process.lines)")
            for user in [1, 2] as [Int64] { #expect(try await api.register(user, "token-\(user)").status == 200) }
            func devices(_ user: Int64) async throws -> Int? {
                try await api.get("/v1/users/\(user)/devices").json?["items"]?.array?.count
            }
            let unlink = try await sandbox.post("/sandbox/unlink", json: ["user_id": 1])
            #expect(unlink.json?["status"] == 200, "\(unlink.text)")
            try await eventually("the device of the unlinked user is withdrawn") { try await devices(1) == 0 }
            #expect(try await devices(2) == 1)
            let event = try await sandbox.post("/sandbox/account-events", json: ["user_id": 2])
            #expect(event.json?["status"] == 202, "\(event.text)")
            try await eventually("the device of the other one, too") { try await devices(2) == 0 }
            let share = try await sandbox.post("/sandbox/link/share", json: ["args": ["order_id": "7"]])
            #expect(share.json?["status"] == 200, "\(share.text)")
            let stored = try await api.get("/v1/link/callbacks?arg.order_id=7")
            #expect(stored.json?["items"]?.array?.count == 1, "\(stored.text)")
        }
    }

    @Test("Phones reach dev over HTTPS, with a token of its sandbox and with the app's own keys")
    func https() async throws {
        let folder = try TemporaryFolder.make() + "/local"
        try await DevServer.with(in: folder) { dev in
            var phone = TestClient(url: try #require(dev.variables["HTTPS_URL"]), authorization: nil)
            phone.caCertificateFile = dev.variables["SANDBOX_CERTIFICATE"]
            #expect(phone.url.hasPrefix("https://127.0.0.1:"))
            let login = try await dev.sandbox.post("/sandbox/login", json: ["user_id": 7])
            let token = try #require(login.json?["access_token"]?.string)
            let me = try await phone.with("Bearer \(token)").get("/v2/user/me")
            #expect(me.json?["id"] == 7, "\(me.text)")
            for name in ["KAKAO_NATIVE_APP_KEY", "KAKAO_JAVASCRIPT_KEY"] {
                let result = try await Self.shell(
                    folder,
                    """
                    curl -sS --cacert "$SANDBOX_CERTIFICATE" "$HTTPS_URL/v2/api/kakaolink/talk/template/default" \
                        -H "Authorization: KakaoAK $\(name)" -H 'KA: sdk/2.27.3' -d link_ver=4.0 \
                        -d 'template_object={"object_type":"text","text":"Hi","link":{"web_url":"https://a.kr"}}'
                    """
                )
                #expect(result.text.contains("template_msg"), "\(result.text)")
            }
        }
    }

    @Test("The certificate of dev outlives a restart, and another one is made for another address")
    func certificate() async throws {
        let folder = try TemporaryFolder.make() + "/local"
        var made: [Data?] = []
        for options in [[], [], ["--host", "127.0.0.2"]] {
            try await DevServer.with(in: folder, options) { dev in
                let file = try #require(dev.variables["SANDBOX_CERTIFICATE"])
                made.append(FileManager.default.contents(atPath: file))
                let key = "\(folder)/certificate.key"
                #expect(try FileManager.default.attributesOfItem(atPath: key)[.posixPermissions] as? Int == 0o600)
                dev.process.send(SIGTERM)
                #expect(await dev.process.ended() == .exited(0))
            }
        }
        #expect(made[0] == made[1] && made[1] != made[2])
    }

    @Test("A public address that is given is in dev.env and in the certificate, also when that shell starts dev again")
    func publicAddress() async throws {
        let folder = try TemporaryFolder.make() + "/local"
        let given = "http://192.168.0.10:8080"
        var environment = ["HTTP_PUBLIC_URL": given]
        for _ in 1...2 {
            try await DevServer.with(in: folder, environment: environment) { dev in
                environment = dev.variables
                for name in ["PUBLIC_URL", "HTTP_PUBLIC_URL"] { #expect(dev.variables[name] == given) }
                #expect(dev.variables["LOCAL_URL"]?.hasPrefix("http://127.0.0.1:") == true)
                let port = try #require(dev.variables["HTTPS_URL"]?.split(separator: ":").last)
                let result = try await Self.shell(
                    folder,
                    """
                    curl -sS --cacert "$SANDBOX_CERTIFICATE" --connect-to ::127.0.0.1: https://192.168.0.10:\(port)/readyz
                    """
                )
                #expect(result.status == 0, "\(result.text)")
                let share = try await dev.sandbox.post("/sandbox/link/share", json: ["args": ["a": "b"]])
                #expect(share.json?["status"] == 200, "\(share.text)")
                dev.process.send(SIGTERM)
                #expect(await dev.process.ended() == .exited(0))
            }
        }
    }

    @Test("On SIGHUP, dev applies a changed settings file")
    func reload() async throws {
        let folder = try TemporaryFolder.make()
        let file = "\(folder)/push-server.yaml"
        try writeFile(Array("pushes:\n  retention_days: 7\n".utf8), to: file)
        try await DevServer.with(in: "\(folder)/local", ["--config", file]) { dev in
            try writeFile(Array("pushes:\n  default_users_per_second: 5\n".utf8), to: file)
            let result = try await Self.shell("\(folder)/local", "kill -HUP $(head -1 local/dev.lock)")
            #expect(result.status == 0, "\(result.text)")
            try await eventually("the settings are reloaded") {
                dev.process.lines.contains {
                    $0.contains("Settings reloaded") && $0.contains("pushes.default_users_per_second")
                }
            }
            // The port for HTTPS keeps its certificate.
            let ready = try await Self.shell(
                "\(folder)/local",
                "curl -sS --cacert \"$SANDBOX_CERTIFICATE\" $HTTPS_URL/readyz"
            )
            #expect(ready.status == 0, "\(ready.text)")
            #expect(
                dev.process.lines.contains { $0.contains("need a restart") && $0.contains("pushes.retention_days") }
            )
        }
    }

    @Test("dev checks its ports before it starts anything", arguments: ["--port", "--https-port", "--sandbox-port"])
    func usedPort(option: String) async throws {
        let folder = try TemporaryFolder.make() + "/local"
        let listener = try FileDescriptor.listening(on: "127.0.0.1", port: 0)
        let port = try listener.boundPort()
        let dev = try await DevServer.process(in: folder, [option, "\(port)"])
        #expect(await dev.ended() == .exited(EX_CONFIG))
        #expect(dev.lines.count == 1, "\(dev.lines)")
        #expect(dev.lines.last?.contains("\(option): Another program listens on port \(port) of 127.0.0.1") == true)
        #expect(!FileManager.default.fileExists(atPath: "\(folder)/postgres"))
    }

    @Test("After a restart of dev, its sandbox has the devices of the database, and pushes reach them")
    func restart() async throws {
        let folder = try TemporaryFolder.make() + "/local"
        try await DevServer.with(in: folder) { dev in
            let api = try dev.api
            for user in [1, 2] as [Int64] { #expect(try await api.register(user, "token-\(user)").status == 200) }
            #expect(try await api.deregister(2).status == 200)
            dev.process.send(SIGTERM)
            #expect(await dev.process.ended() == .exited(0))
        }
        try await DevServer.with(in: folder) { dev in
            // Such as those of a connection that is closed while it opens.
            #expect(!dev.process.lines.contains { $0.contains("ERROR") }, "\(dev.process.lines)")
            for (user, outcome) in [(1, "delivered"), (2, "no_device")] as [(Int64, JSONValue)] {
                let push = try await dev.api.push([user], marker: "m")
                try await dev.api.waitUntilDone(push)
                let deliveries = try await dev.sandbox.get("/sandbox/deliveries?user_id=\(user)")
                #expect(deliveries.json?["items"]?.array?.map { $0["outcome"] } == [outcome], "\(deliveries.text)")
            }
        }
    }

    @Test("With --host, the server and the sandbox listen at the address, which is in all URLs and in the certificate")
    func host() async throws {
        let folder = try TemporaryFolder.make() + "/local"
        // Another loopback address stands for one of the network.
        try await DevServer.with(in: folder, ["--host", "127.0.0.2"]) { dev in
            for name in ["SERVER_URL", "PUBLIC_URL", "HTTP_PUBLIC_URL"] {
                #expect(dev.variables[name]?.hasPrefix("http://127.0.0.2:") == true, "\(name)")
            }
            let sandbox = try #require(dev.variables["SANDBOX_URL"])
            #expect(sandbox.hasPrefix("https://127.0.0.2:"))
            let login = try await dev.api.with(nil).get("/login/kakao")
            let address = login.headerFields[.location] ?? ""
            #expect(address.hasPrefix("\(sandbox)/oauth/authorize?"), "\(address)")
            #expect(address.contains("redirect_uri=http%3A%2F%2F127.0.0.2"), "\(address)")
            // Its certificate is for the address: the client verifies it.
            let configuration = try await dev.sandbox.get("/.well-known/openid-configuration")
            #expect(configuration.json?["issuer"] == .string(sandbox))
            let registered = try await dev.api.register(1, "token")
            #expect(registered.status == 200, "\(registered.text)")
            #expect(!dev.process.lines.contains { $0.contains("Open to the network") })
            let health = try await Self.shell(folder, "push-server health")
            #expect(health.status == 0, "\(health.text)")
        }
    }

    @Test("With --host 0.0.0.0, the URLs have this machine's address in its network, and a warning names the risk")
    func network() async throws {
        let folder = try TemporaryFolder.make() + "/local"
        let host = SocketAddress.ofThisMachine()?.host ?? "127.0.0.1"
        try await DevServer.with(in: folder, ["--host", "0.0.0.0"]) { dev in
            #expect(dev.variables["SERVER_URL"]?.hasPrefix("http://\(host):") == true)
            #expect(dev.variables["SANDBOX_URL"]?.hasPrefix("https://\(host):") == true)
            let registered = try await dev.api.register(1, "token")
            #expect(registered.status == 200, "\(registered.text)")
            // Android's emulator and the machine itself use other addresses.
            let port = try #require(dev.variables["HTTP_PORT"])
            let local = try await TestClient(url: "http://127.0.0.1:\(port)").get("/readyz")
            #expect(local.status == 200)
            try await eventually("the warning appears") {
                dev.process.lines.contains { $0.contains("Open to the network") && $0.contains("host=0.0.0.0") }
            }
        }
        let named = try await DevServer.process(in: folder, ["--host", "example.com"])
        #expect(await named.ended() == .exited(EX_USAGE))
    }

    @Test("Only --host opens dev to the network: not the shell of an earlier run that was open, nor the settings file")
    func onlyOption() async throws {
        let folder = try TemporaryFolder.make()
        let file = "\(folder)/push-server.yaml"
        try writeFile(Array("http:\n  host: 0.0.0.0\n".utf8), to: file)
        try await DevServer.with(in: "\(folder)/local", ["--config", file], environment: ["HTTP_HOST": "0.0.0.0"]) {
            dev in
            #expect(dev.variables["HTTP_HOST"] == "127.0.0.1")
            for name in ["SERVER_URL", "HTTPS_URL", "SANDBOX_URL"] {
                #expect(dev.variables[name]?.contains("//127.0.0.1:") == true, "\(name)")
            }
            #expect(!dev.process.lines.contains { $0.contains("Open to the network") })
        }
    }

    @Test("A shell that has read dev.env can start dev again, at another port")
    func again() async throws {
        let folder = try TemporaryFolder.make() + "/local"
        var environment: [String: String] = [:]
        try await DevServer.with(in: folder) { dev in
            environment = dev.variables
            dev.process.send(SIGTERM)
            #expect(await dev.process.ended() == .exited(0))
        }
        environment["LOCAL_URL"] = "http://127.0.0.1:1"
        environment["HTTP_PUBLIC_URL"] = "http://127.0.0.1:1"
        try await DevServer.with(in: folder, environment: environment) { dev in
            #expect(dev.variables["HTTP_PUBLIC_URL"] == dev.variables["PUBLIC_URL"])
            #expect(dev.variables["HTTP_PUBLIC_URL"] != "http://127.0.0.1:1")
        }
    }

    @Test("dev.env quotes what a shell would read otherwise")
    func quotes() async throws {
        let values = ["A": "it's $HOME `id` \\", "B": "한글 \"x\""]
        let file = DevFile(addresses: [("URL", "http://a")], settings: values, programs: "/opt/it's here")
        let path = "\(try TemporaryFolder.make())/dev.env"
        try PrivateFile.write(file.text, to: path)
        let script = ". \(path); . \(path); printf '%s\\n' \"$URL\" \"$A\" \"$B\" \"$PATH\""
        let result = try await Program.run(["sh", "-euc", script], environment: ["PATH": "/usr/bin:/bin"])
        #expect(
            result.text.split(separator: "\n").map(String.init)
                == ["http://a", values["A"], values["B"], "/opt/it's here:/usr/bin:/bin"]
        )
    }
}

extension DevServer {
    /// A client of the server with the operator key.
    fileprivate var api: TestClient {
        get throws {
            TestClient(
                url: try #require(variables["SERVER_URL"]),
                authorization: "Bearer \(try #require(variables["OPERATOR_KEY"]))"
            )
        }
    }

    /// A client of the sandbox, which trusts its certificate only.
    fileprivate var sandbox: TestClient {
        get throws {
            var client = TestClient(
                url: try #require(variables["SANDBOX_URL"]),
                authorization: nil,
                checksContract: false
            )
            client.caCertificateFile = variables["SANDBOX_CERTIFICATE"]
            return client
        }
    }
}
