import FoundationEssentials
import HTTPClient
import JSON
import Postgres
import Server
import ServiceTesting
import TestSupport
import Testing

/// Tests of what a newcomer meets before anything else.
@Suite(.timeLimit(.minutes(5))) struct FirstHourTests {
    @Test("GET / needs no key and names the paths to go on with, each of which is there")
    func start() async throws {
        try await withSharedService { service in
            let answer = try await service.api.with(nil).get("/")
            #expect(answer.status == 200, "\(answer.text)")
            #expect(answer.json?["api"] == "/v1")
            for name in ["description", "health", "readiness"] {
                let path = try #require(answer.json?[name]?.string)
                #expect(try await service.api.with(nil).get(path).status == 200, "\(path)")
            }
            #expect(try await service.api.with(nil).post("/").status == 405)
        }
    }

    @Test("The response to an unknown path names a similar one")
    func similarPath() async throws {
        try await withSharedService { service in
            for (path, similar) in [
                ("/v1/pushs", "/v1/pushes"), ("/pushes/7", "/v1/pushes/{id}"), ("/v1/device", "/v1/devices"),
                ("/v1/user/1/devices", "/v1/users/{user_id}/devices"), ("/health", "/healthz"),
                ("/v1/user/me", "/v2/user/me"), ("/v1/push/sent", "/v1/push/send"),
            ] {
                let answer = try await service.api.get(path)
                #expect(answer.status == 404)
                #expect(
                    answer.json?["detail"]?.string == "There is nothing at this path. Did you mean `\(similar)`?",
                    "\(answer.text)"
                )
            }
            for (path, hint) in [
                ("/v1/nothing-like-it/at/all", ""),
                ("/v1/push/foo", " Paths that begin with `/v1/push/`: `deregister`, `register`, `send`, `tokens`."),
                ("/oauth/token", " Logins and tokens stay at https://kauth.kakao.com, with Kakao's keys."),
                ("/oauth/authorize", " Logins and tokens stay at https://kauth.kakao.com, with Kakao's keys."),
            ] {
                let other = try await service.api.get(path)
                #expect(other.json?["detail"]?.string == "There is nothing at this path.\(hint)")
            }
        }
    }

    @Test("The user is named user_id or uuid, in whichever operation")
    func aliases() async throws {
        try await withService { service in
            for (index, name) in ["user_id", "uuid"].enumerated() {
                let user = String(index + 1)
                var body: JSONObject = ["push_type": "fcm", "push_token": .string("token of \(user)")]
                body[name] = .string(user)
                let put = try await service.api.put(
                    "/v1/devices/phone",
                    JSONValue.object(body).bytes(),
                    type: "application/json"
                )
                #expect(put.status == 201, "\(put.text)")
                #expect(try await service.api.get("/v1/devices?\(name)=\(user)").json?["items"]?.array?.count == 1)
                #expect(try await service.api.get("/v1/push/tokens?\(name)=\(user)").json?.array?.count == 1)
                #expect(try await service.api.get("/v1/events?\(name)=\(user)").status == 200)
            }
            let push = try await service.api.post("/v1/pushes", json: pushBody(["user_ids": [1, 2]]))
            #expect(push.status == 202 && push.json?["audience"] == ["uuids": ["1", "2"]], "\(push.text)")
            let send = try await service.api.post("/v1/push/send", json: ["user_ids": [1], "push_message": gcm()])
            #expect(send.status == 200, "\(send.text)")
        }
    }

    @Test("The program has the files of migrations/: scripts/embed-files lists them")
    func migrations() throws {
        let folder = TestFiles.migrations
        let names = try FileManager.default.contentsOfDirectory(atPath: folder)
        let functions = try FileManager.default.contentsOfDirectory(atPath: "\(folder)/functions")
        let paths = (names + functions.map { "functions/\($0)" }).filter { $0.hasSuffix(".sql") }.sorted()
        #expect(EmbeddedMigrations.files.map(\.path) == paths, "Run scripts/embed-files")
        for file in EmbeddedMigrations.files {
            #expect(FileManager.default.contents(atPath: "\(folder)/\(file.path)").map { Array($0) } == file.contents)
        }
    }

    @Test("The program migrates a database from any folder, without the files of its source")
    func migratesAnywhere() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let folder = try TemporaryFolder.make()
            let program = try Program.path("push-server")
            do {
                try FileManager.default.linkItem(atPath: program, toPath: "\(folder)/push-server")
            } catch {
                // The folder is on another file system.
                try FileManager.default.copyItem(atPath: program, toPath: "\(folder)/push-server")
            }
            var environment = RunningProgram.environment(database, kakao)
            environment["LOG_LEVEL"] = "warning"
            environment["PATH"] = "/usr/bin:/bin"
            let command = ["sh", "-c", "cd '\(folder)' && exec ./push-server migrate"]
            let result = try await Program.run(command, environment: environment)
            // The files are those with which the test has made the database.
            #expect(result.text == "nothing to apply\n" && result.status == 0, "\(result.text)")
        }
    }
}
