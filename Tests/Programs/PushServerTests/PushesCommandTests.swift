import Endpoints
import FoundationEssentials
import Glibc
import HTTPClient
import HTTPServer
import Identity
import JSON
import KakaoSandbox
import Net
import Pushes
import Server
import ServiceTesting
import Subprocess
import SystemPackage
import TestSupport
import Testing

@testable import Settings

/// Tests of `push-server pushes …` as a process, against a server over a real socket.
@Suite(.timeLimit(.minutes(5))) struct PushesCommandTests {
    private static let message = #"{"for_gcm":{"custom_field":{"marker":"m"}}}"#

    @Test("A push is sent to two users, watched without a terminal until it is done, listed and shown")
    func sendAndWatch() async throws {
        try await withService { service in
            try await service.database.addPhones([1, 2])
            let pushes = OperatorCommand("pushes", service.api.url)
            let sent = try await pushes.run([
                "send", "--message", Self.message, "--user", "1", "--user", "2", "--name", "여름 세일", "--watch",
            ])
            #expect(sent.code == 0, "\(sent)")
            let id = try #require(sent.lines.first)
            #expect(id.count == 36)
            #expect(sent.lines.last == "done 100% 2/2 users")
            #expect(!sent.output.contains("\u{1B}") && !sent.output.contains("\r"))
            #expect(service.kakao.sandbox.reached(marker: "m").users == 2)

            let watched = try await pushes.run(["watch", id])
            #expect(watched.lines == ["done 100% 2/2 users"])
            #expect(watched.code == 0)

            let list = try await pushes.run(["list", "--state", "done"])
            #expect(list.lines.count == 3)
            #expect(list.lines[1].hasPrefix("\(id)  done         2/2         "), "\(list.output)")
            #expect(list.lines[2].hasPrefix("  \"여름 세일\", {"), "\(list.output)")
            let lines = try await pushes.run(["list", "--json", "--limit", "5"]).lines
            #expect(lines.count == 1)
            #expect(try JSONValue(parsing: lines.first ?? "")["id"]?.string == id)

            let shown = try await pushes.run(["show", id, "--batches"])
            #expect(shown.output.contains("2 in all, 2 sent"), "\(shown.output)")
            #expect(shown.lines.last?.hasPrefix("1      sent   2      1") == true, "\(shown.output)")
            #expect(try await pushes.run(["show", id, "--batches", "failed", "--json"]).lines == [])
            let json = try await pushes.run(["show", id, "--json"])
            #expect(try JSONValue(parsing: json.output)["users"]?["sent"] == 2)
        }
    }

    @Test("A push says what it is, where the settings demand that")
    func kind() async throws {
        try await withService {
            $0.pushes.requiresKind = true
        } _: { service in
            let pushes = OperatorCommand("pushes", service.api.url)
            let send = ["send", "--message", Self.message, "--user", "1"]
            #expect(try await pushes.run(send).code == EX_USAGE)
            let sent = try await pushes.run(send + ["--kind", "informational"])
            #expect(sent.code == 0, "\(sent)")
            let id = try #require(sent.lines.first)
            #expect(try await service.api.shown("/v1/pushes/\(id)")["kind"] == "informational")
        }
    }

    @Test("A list continues over several pages up to the limit")
    func pages() async throws {
        try await withService { service in
            var ids: [String] = []
            let later: JSONValue = [
                "audience": ["uuids": [1]], "message": ["for_gcm": [:]], "send_at": "2100-01-01T00:00:00Z",
            ]
            for _ in 1...53 {
                let answer = try await service.api.post("/v1/pushes", json: later)
                ids.append(try #require(answer.json?["id"]?.string))
            }
            let pushes = OperatorCommand("pushes", service.api.url)
            for (limit, count) in [(52, 52), (100, 53), (1, 1)] {
                let lines = try await pushes.run(["list", "--json", "--limit", String(limit)]).lines
                #expect(
                    lines.map { try? JSONValue(parsing: $0)["id"]?.string } == ids.reversed().prefix(count).map(\.self)
                )
            }
        }
    }

    @Test("A push is paused, resumed and canceled; watch reports the state by its exit code, and errors are printed")
    func controls() async throws {
        try await withService { service in
            let pushes = OperatorCommand("pushes", service.api.url)
            let sent = try await pushes.run([
                "send", "--message", Self.message, "--user", "1", "--at", "2100-01-01T00:00:00Z",
            ])
            let id = try #require(sent.lines.first)
            #expect(try await pushes.run(["pause", id]).lines == ["paused"])
            let paused = try await pushes.run(["watch", id])
            #expect(paused.code == 2)
            #expect(paused.lines == ["paused 0/0 users"])
            #expect(paused.errors == "The push is paused. To resume it: push-server pushes resume \(id)\n")
            #expect(try await pushes.run(["resume", id]).lines == ["scheduled"])
            #expect(try await pushes.run(["cancel", id]).lines == ["canceled"])
            #expect(try await pushes.run(["watch", id]).code == 1)
            let refused = try await pushes.run(["retry", id])
            #expect(refused.code == 1)
            let words = "push-server: Cannot retry a push in state `canceled`. It has ended. A copy of it can be sent."
            #expect(refused.errors.hasPrefix(words), "\(refused)")
            #expect(try await pushes.run(["retry", id, "--uncertain"]).code == EX_USAGE)
            #expect(refused.output.isEmpty)
        }
    }

    @Test("retry sends the failed batches again, and watch prints the command for it")
    func retry() async throws {
        try await withService { service in
            try await service.database.addPhones([1, 2])
            service.kakao.fail("send", status: 404, code: -404, times: 1)
            let pushes = OperatorCommand("pushes", service.api.url)
            let sent = try await pushes.run([
                "send", "--message", Self.message, "--user", "1", "--user", "2", "--watch",
            ])
            let id = try #require(sent.lines.first)
            #expect(sent.lines.last == "done 100% 0/2 users, 2 failed")
            #expect(sent.errors.contains("push-server pushes retry \(id)"))
            let state = try await pushes.run(["retry", id]).lines.first ?? ""
            #expect(["sending", "done"].contains(state))
            let watched = try await pushes.run(["watch", id])
            #expect(watched.code == 0)
            #expect(watched.lines.last == "done 100% 2/2 users")
        }
    }

    @Test("watch and show print why a user was not reached, and propose no retry of a message that Kakao rejects")
    func failure() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            service.kakao.fail("send", status: 400, code: -2) { $0.message = "words of Kakao" }
            let pushes = OperatorCommand("pushes", service.api.url)
            let sent = try await pushes.run(["send", "--message", Self.message, "--user", "1", "--watch"])
            let id = try #require(sent.lines.first)
            #expect(sent.lines.last == "done 100% 0/1 users, 1 failed", "\(sent)")
            #expect(sent.errors.contains("first failed batch: 400 -2 words of Kakao\n"), "\(sent)")
            #expect(sent.errors.contains("a retry would fail too") && !sent.errors.contains("pushes retry"), "\(sent)")
            let shown = try await pushes.run(["show", id])
            #expect(shown.output.contains(/failure +400 -2 words of Kakao/), "\(shown)")
        }
    }

    @Test("watch and retry --uncertain say how many users may not have been reached, and only those are asked about")
    func uncertain() async throws {
        try await withService { service in
            try await service.database.addPhones([1, 2])
            service.kakao.fail("send", .dropAfterBody, times: 1)
            let pushes = OperatorCommand("pushes", service.api.url)
            let users = ["--user", "1", "--user", "2", "--delivery", "at_most_once"]
            let sent = try await pushes.run(["send", "--message", Self.message, "--watch"] + users)
            let id = try #require(sent.lines.first)
            #expect(sent.lines.last == "done 100% 0/2 users, 2 uncertain", "\(sent)")
            #expect(sent.errors.contains("2 users may or may not have been reached."), "\(sent)")
            #expect(sent.errors.contains("push-server pushes retry \(id) --uncertain"), "\(sent)")
            let plain = try await pushes.run(["retry", id])
            #expect(plain.code == 1 && plain.errors.contains("and 1 is uncertain"), "\(plain)")
            let asked = try await pushes.runOnTerminal(["retry", id, "--uncertain"], columns: 200, input: "y\n")
            #expect(asked.code == 0 && asked.output.contains("Send again to 2 users of uncertain batches?"), "\(asked)")
            #expect(asked.output.contains(/state +done/) && asked.output.contains(#""marker":"m""#), "\(asked)")
            try await service.api.waitUntilDone("/v1/pushes/\(id)")
            let none = try await pushes.runOnTerminal(["retry", id, "--uncertain"], columns: 200)
            #expect(none.code == 1 && !none.output.contains("[y/N]"), "\(none)")
        }
    }

    @Test("watch says why a push stands still: its time, and the sender")
    func standstill() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let pushes = OperatorCommand("pushes", service.api.url)
            let send = ["send", "--message", Self.message, "--user", "1"]
            let later = try await pushes.run(send + ["--at", "2100-01-01T00:00:00Z"]).lines[0]
            #expect(try await service.api.post("/v1/sender/stop", json: ["reason": "A test"]).status == 200)
            let stopped = try await pushes.run(send).lines[0]
            for (id, line) in [
                (later, "scheduled 0/0 users, begins at 2100-01-01T00:00:00.000Z"),
                (stopped, "sending 0% 0/1 users, the sender is stopped: push-server status"),
            ] {
                let watching = try await RunningProgram.start(
                    ["pushes", "watch", id, "--url", service.api.url],
                    environment: ["OPERATOR_KEY": Keys.operator]
                )
                try await eventually("watch says it") { watching.lines.contains(line) }
                watching.send(SIGINT)
                _ = await watching.ended()
            }
        }
    }

    @Test("When a push is halted, watch ends with Kakao's message and the command to resume it")
    func halted() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            service.kakao.fail("send", status: 401, code: -401) { $0.message = "words of Kakao" }
            let pushes = OperatorCommand("pushes", service.api.url)
            let sent = try await pushes.run(["send", "--message", Self.message, "--user", "1", "--watch"])
            #expect(sent.code == 2)
            #expect(sent.errors.contains("words of Kakao"))
            #expect(sent.errors.contains("push-server pushes resume \(sent.lines.first ?? "?")"))
        }
    }

    @Test("resume says what became of a halted push: it is sent, it is halted again, or nothing is known yet")
    func resumed() async throws {
        try await withService { service in
            try await service.database.addPhones(1...250)
            service.kakao.fail("send", status: 401, code: -401) { $0.message = "words of Kakao" }
            let pushes = OperatorCommand("pushes", service.api.url)
            let sent = try await pushes.run(["send", "--message", Self.message, "--everyone", "--yes", "--watch"])
            let id = try #require(sent.lines.first)
            #expect(sent.code == 2, "\(sent)")
            let again = try await pushes.run(["resume", id])
            switch again.lines {
            case ["halted"]: #expect(again.code == 2 && again.errors.contains("words of Kakao"), "\(again)")
            case ["sending"]: #expect(again.code == 0 && again.errors.contains("pushes watch \(id)"), "\(again)")
            default: Issue.record("\(again)")
            }
            try await service.api.waitFor("halted", "/v1/pushes/\(id)")
            service.kakao.sandbox.removeFaults()
            let well = try await pushes.run(["resume", id])
            #expect(well.code == 0 && ["sending", "done"].contains(well.lines.first), "\(well)")
            try await service.api.waitUntilDone("/v1/pushes/\(id)")
        }
    }

    @Test("The question before advertising outside its hours says when it goes out, and so does a dry run")
    func advertising() async throws {
        try await withService {
            // An hour that is over or has yet to begin.
            let hour = (Int(Date().timeIntervalSince1970) / 3600 + 9 + 12) % 24
            $0.pushes.advertisingHours.begins = hour * 3600
            $0.pushes.advertisingHours.ends = hour * 3600 + 3600
            $0.pushes.advertisingTag = "ads"
        } _: { service in
            try await service.database.addPhones([1, 2])
            try await service.database.pool.write("UPDATE devices SET tags = '{ads}' WHERE user_id = 1")
            let pushes = OperatorCommand("pushes", service.api.url)
            let message = #"{"for_gcm":{"notification":{"body":"(광고) Sale"}}}"#
            let options = ["--kind", "advertising", "--message", message, "--everyone"]
            let asked = try await pushes.runOnTerminal(["send"] + options, columns: 200, input: "y\n")
            #expect(asked.code == 0, "\(asked)")
            let words =
                /time +[-0-9]{10} [0-9]{2}:00:00 \+09:00 \(Asia\/Seoul\), in .*, when the hours for advertising begin/
            #expect(asked.output.contains(words) && asked.output.contains("Send to 1 user"), "\(asked)")
            #expect(asked.output.contains(/audience +\{"everyone":true\}/), "\(asked)")
            let dry = try await pushes.run(["send", "--dry-run"] + options)
            #expect(dry.lines.contains("kind      advertising"), "\(dry)")
            #expect(dry.lines.contains("consent   missing of 1 more") && !dry.output.contains("left out"), "\(dry)")
            #expect(dry.output.contains(/time      [-0-9T:]+Z, in .*, when the hours for advertising begin/), "\(dry)")
            let listed = try await pushes.run(["list"])
            let id = try #require(listed.lines.dropFirst().first?.split(separator: " ").first.map(String.init))
            #expect(listed.lines[1].hasPrefix("\(id)  scheduled  advertising  0/0  "), "\(listed)")
            #expect(listed.lines[2].contains(/^  waits until [-0-9T:.]+Z, \(광고\) Sale$/), "\(listed)")
            let shown = try await pushes.run(["show", id])
            #expect(shown.output.contains(/state +scheduled/) && shown.output.contains(/kind +advertising/), "\(shown)")
            #expect(shown.output.contains(/waits_until +[-0-9T:.]+Z/), "\(shown)")
            let copied = try await pushes.runOnTerminal(["copy", id], columns: 200, input: "n\n")
            #expect(copied.output.contains(words), "\(copied)")
            let early = try await pushes.run(["send", "--dry-run"] + options + ["--expires", (Date() + 3600).rfc3339])
            #expect(early.code == EX_USAGE, "\(early)")
            #expect(early.errors.contains(/--expires [-0-9]{10} [:0-9]{8} \+09:00 is/), "\(early)")
        }
    }

    @Test("The list says how many users are uncertain, whom the numbers of its row leave out")
    func uncertainUsers() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            service.kakao.fail("send", .dropAfterBody)
            let push = try await service.api.create(uuids([1]), gcm(), ["delivery": "at_most_once"])
            try await service.api.waitUntilDone(push)
            let list = try await OperatorCommand("pushes", service.api.url).run(["list"])
            #expect(list.lines.count == 3 && list.lines.last?.hasPrefix("  1 user uncertain, ") == true, "\(list)")
        }
    }

    @Test("A dry run prints the numbers of users and requests and the first request, and stores nothing")
    func dryRun() async throws {
        try await withService { service in
            try await service.database.addPhones([1, 2])
            let arguments = ["send", "--message", Self.message, "--everyone", "--dry-run"]
            let answer = try await OperatorCommand("pushes", service.api.url).run(arguments)
            #expect(answer.code == 0, "\(answer)")
            let requests = "requests  1 (less than 0.01 % of those that Kakao allows in a month)"
            #expect(answer.lines.prefix(2) == ["users     2 (0 would be skipped)", requests])
            let except = try await OperatorCommand("pushes", service.api.url).run(
                arguments + ["--except-tag", "a", "--except-audience", "some"]
            )
            #expect(except.errors.contains("except.audience must be the name of a stored audience"), "\(except)")
            try await service.database.pool.write("UPDATE devices SET tags = '{a}' WHERE user_id = 1")
            let slow = ["--except-tag", "a", "--users-per-second", "1"]
            let left = try await OperatorCommand("pushes", service.api.url).run(arguments + slow)
            #expect(
                left.lines.prefix(4)
                    == ["users     1 (0 would be skipped)", "left out  1 more", requests, "duration  about 1 s"]
            )
            #expect(answer.output.contains("POST \(service.kakao.sandbox.url)/v1/push/send"))
            #expect(!answer.output.contains(Keys.admin))
            #expect(try await service.database.count("pushes") == 0)
        }
    }

    @Test("On a terminal, a dry run prints the first request only, and not all of its users")
    func shortDryRun() async throws {
        try await withService { service in
            let pushes = OperatorCommand("pushes", service.api.url)
            // More than the server shows of an audience.
            let users = (1...250).flatMap { ["--user", "\(1_000_000 + $0)"] }
            let arguments = ["send", "--message", Self.message, "--include-unknown", "--dry-run"] + users
            let whole = try await pushes.run(arguments).output
            #expect(whole.components(separatedBy: "POST ").count == 4 && whole.contains("1000250"), "\(whole)")
            let short = try await pushes.runOnTerminal(arguments, columns: 200).output
            #expect(short.components(separatedBy: "POST ").count == 2 && short.count < 1500, "\(short)")
            #expect(short.contains("With | cat, all 3 requests are printed whole."), "\(short)")
        }
    }

    @Test("--include-unknown also sends to users without a device here, and requires listed users")
    func includeUnknown() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let pushes = OperatorCommand("pushes", service.api.url)
            let arguments = ["send", "--message", Self.message, "--user", "1", "--user", "2", "--watch"]
            #expect(try await pushes.run(arguments).lines.last == "done 100% 1/2 users, 1 skipped")
            #expect(try await pushes.run(arguments + ["--include-unknown"]).lines.last == "done 100% 2/2 users")
            let everyone = ["send", "--message", Self.message, "--everyone", "--yes", "--include-unknown"]
            let refused = try await pushes.run(everyone)
            #expect(refused.code != 0)
            #expect(refused.errors.contains("--include-unknown needs"))
        }
    }

    @Test("More users than a request may name are uploaded as an audience, which is deleted later unless it was named")
    func usersFile() async throws {
        try await withService { service in
            let path = "\(try TemporaryFolder.make())/users"
            try writeFile(Array((1...10_500).map { "\($0)\n" }.joined().utf8), to: path)
            let pushes = OperatorCommand("pushes", service.api.url)
            let arguments = ["--message", Self.message, "--users-file", path]
            try await service.database.addPhones(1...10_500)
            let sent = try await pushes.run(["send", "--watch"] + arguments)
            #expect(sent.code == 0, "\(sent)")
            #expect(sent.lines.last?.hasPrefix("done 100% 10,500/10,500 users") == true)
            #expect(sent.errors.contains("Uploaded 10,500 users."))
            #expect(try await service.database.count("audiences") == 0)
            let id = try #require(sent.lines.first)
            let file = "a file of 10,500 lines (--users-file)"
            let shown = try await pushes.run(["show", id])
            #expect(shown.output.contains(file) && !shown.output.contains("file-10500"), "\(shown)")
            for options in [["--yes"], ["--dry-run"]] {
                let copied = try await pushes.run(["copy", id] + options)
                #expect(copied.code == 1 && copied.errors.contains("its users were \(file)"), "\(copied)")
                #expect(copied.errors.contains("send --users-file") && !copied.errors.contains("PUT"), "\(copied)")
            }
            #expect(service.kakao.sandbox.reached(marker: "m").users == 10_500)

            #expect(try await pushes.run(["send", "--audience", "mine", "--dry-run"] + arguments).code == 0)
            #expect(try await service.database.text("SELECT name FROM audiences") == "mine")
        }
    }

    @Test("A message may come from a file or standard input, and invalid JSON is not sent")
    func messages() async throws {
        try await withService { service in
            let path = "\(try TemporaryFolder.make())/message.json"
            try writeFile(Array(Self.message.utf8), to: path)
            let pushes = OperatorCommand("pushes", service.api.url)
            let rest = ["--user", "1", "--at", "2100-01-01T00:00:00Z"]
            #expect(try await pushes.run(["send", "--message", path] + rest).code == 0)
            #expect(try await pushes.run(["send", "--message", "-"] + rest, input: Self.message).code == 0)
            #expect(try await service.database.count("pushes WHERE message = '\(Self.message)'") == 2)
            let broken = try await pushes.run(["send", "--message", #"{"for_gcm":"#] + rest)
            #expect(broken.code == EX_USAGE)
            #expect(broken.errors.hasPrefix("push-server: The message is not valid JSON: "))
            let missing = try await pushes.run(["send", "--message", "/nowhere"] + rest)
            #expect(missing.code == EX_USAGE && missing.errors.contains("/nowhere cannot be read"))
            // The server rejects this one, with its own message.
            let empty = try await pushes.run(["send", "--message", "{}"] + rest)
            #expect(empty.code == EX_USAGE)
            #expect(empty.errors.contains("message must be an object like Kakao's push_message"))
            #expect(try await service.database.count("pushes") == 2)
        }
    }

    @Test("A send whose response is lost is retried, and the push is stored once")
    func lostAnswer() async throws {
        try await withService { service in
            let relay = try Relay(to: service.api.url) { number, answer in number > 1 ? answer : nil }
            let sent = try await OperatorCommand("pushes", relay.url).run([
                "send", "--message", Self.message, "--user", "1", "--at", "2100-01-01T00:00:00Z",
            ])
            #expect(sent.code == 0, "\(sent)")
            #expect(relay.requests == 2)
            #expect(try await service.database.count("pushes") == 1)
            #expect(try await service.database.text("SELECT id::text FROM pushes") == sent.lines.first)
        }
    }

    @Test("Without a terminal, --everyone requires --yes, and the key cannot be an argument")
    func unasked() async throws {
        let pushes = OperatorCommand("pushes", "http://127.0.0.1:1")
        let everyone = try await pushes.run(["send", "--message", Self.message, "--everyone"])
        #expect(everyone.code == EX_USAGE)
        #expect(everyone.errors.contains("--yes"))
        for command in ["approve", "cancel", "copy", "retry", "send"] {
            let help = try await pushes.run([command, "--help"]).output.split(whereSeparator: \.isWhitespace)
            let words = "Without a terminal, approve, copy, retry --uncertain and send --everyone require it."
            #expect(help.joined(separator: " ").contains(words), "\(help)")
        }
        #expect(try await pushes.run(["list", "--key", "x"]).code == EX_USAGE)
        #expect(try await pushes.run(["show", "0190"]).code == EX_USAGE)
    }

    @Test("Without a server, without a key and with a wrong key, a command fails and prints a remedy")
    func failures() async throws {
        let absent = try await OperatorCommand("pushes", "http://127.0.0.1:1").run(["list"])
        #expect(absent.code == 1)
        #expect(absent.errors.contains("http://127.0.0.1:1") && absent.errors.contains("SERVER_URL"))
        #expect(absent.errors.count(where: { $0 == "\n" }) == 1)
        let keyless = try await OperatorCommand("pushes", "http://127.0.0.1:1", key: nil).run(["list"])
        #expect(keyless.code == 1)
        #expect(keyless.errors.contains("OPERATOR_KEY") && keyless.errors.contains("--key-file"))
        try await withService { service in
            let wrong = try await OperatorCommand("pushes", service.api.url, key: "wrong").run(["list"])
            #expect(wrong.code == 1)
            let detail = try await service.api.with("Bearer wrong").get("/v1/pushes").json?["detail"]?.string
            #expect(wrong.errors.hasPrefix("push-server: \(detail ?? "?") (request "), "\(wrong.errors)")
            let path = "\(try TemporaryFolder.make())/key"
            try writeFile(Array("\(Keys.operator)\n".utf8), to: path)
            let right = try await OperatorCommand("pushes", service.api.url, key: "wrong").run([
                "list", "--key-file", path,
            ])
            #expect(right.code == 0, "\(right)")
        }
    }

    @Test("A self-signed certificate is trusted only if --ca-file names it")
    func certificate() async throws {
        let folder = try TemporaryFolder.make()
        let certificate = try SelfSignedCertificate()
        try writeFile(certificate.certificate, to: "\(folder)/certificate.pem")
        try writeFile(certificate.privateKey, to: "\(folder)/key.pem")
        let adjust = { (settings: inout Settings) in
            settings.certificateFile = "\(folder)/certificate.pem"
            settings.privateKeyFile = "\(folder)/key.pem"
        }
        try await withService(adjust) { service in
            let pushes = OperatorCommand("pushes", "https://\(service.api.url.dropFirst("http://".count))/")
            let refused = try await pushes.run(["list"])
            #expect(refused.code == 1)
            #expect(refused.errors.contains("--ca-file"))
            let trusted = try await pushes.run(["list", "--ca-file", "\(folder)/certificate.pem"])
            #expect(trusted.code == 0, "\(trusted)")
        }
    }

    @Test("watch waits for a server that restarts, and follows the push to its end")
    func restarted() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var environment = RunningProgram.environment(database, kakao)
            kakao.fail("send", status: 500, code: -1)
            let watching: RunningProgram
            var first: RunningProgram?
            do {
                let server = try await RunningProgram.start(environment: environment)
                first = server
                let api = TestClient(url: try await server.url())
                environment["HTTP_PORT"] = api.url.split(separator: ":").last.map(String.init)
                try await database.addPhones([1])
                let push = try await api.push([1], marker: "m")
                let id = push.split(separator: "/").last.map(String.init) ?? ""
                watching = try await RunningProgram.start(
                    ["pushes", "watch", id, "--url", api.url],
                    environment: ["OPERATOR_KEY": Keys.operator]
                )
                try await eventually("watch shows the push") {
                    watching.lines.contains { $0.hasPrefix("sending 0% 0/1") }
                }
                server.send(SIGTERM)
                _ = await server.ended()
            } catch {
                first?.send(SIGKILL)
                throw error
            }
            try await eventually("watch waits for the server") {
                watching.lines.contains { $0.contains("waiting for it") }
            }
            kakao.sandbox.removeFaults()
            try await RunningProgram.with(environment: environment) { _, _ in
                #expect(await watching.ended() == .exited(0), "\(watching.lines)")
                #expect(watching.lines.last == "done 100% 1/1 users")
            }
        }
    }

    @Test("Ctrl-C stops the watching but not the push, and prints that")
    func interrupted() async throws {
        try await withService { service in
            let answer = try await OperatorCommand("pushes", service.api.url).run([
                "send", "--message", Self.message, "--user", "1", "--at", "2100-01-01T00:00:00Z",
            ])
            let id = try #require(answer.lines.first)
            let watching = try await RunningProgram.start(
                ["pushes", "watch", id, "--url", service.api.url],
                environment: ["OPERATOR_KEY": Keys.operator]
            )
            try await eventually("watch shows the push") { watching.lines.contains { $0.hasPrefix("scheduled") } }
            watching.send(SIGINT)
            #expect(await watching.ended() == .exited(130))
            #expect(watching.lines.last?.contains("The push continues") == true)
            #expect(try await service.api.state("/v1/pushes/\(id)") == "scheduled")
        }
    }

    @Test("On a terminal the progress is redrawn in one line, no wider than the terminal")
    func terminal() async throws {
        try await withService { service in
            try await service.database.addPhones([1, 2])
            let pushes = OperatorCommand("pushes", service.api.url)
            let id = try await pushes.run(["send", "--message", Self.message, "--user", "1", "--user", "2"]).lines[0]
            for columns in [60, 20] {
                let drawn = try await pushes.runOnTerminal(["watch", id], columns: columns)
                #expect(drawn.code == 0, "\(drawn)")
                let lines = drawn.output.split(separator: "\u{1B}[K").map { $0.split(whereSeparator: \.isNewline) }
                let last = lines.dropLast().last?.last.map(String.init)?.split(separator: "\r").last ?? ""
                #expect(last.count < columns)
                #expect(last.hasSuffix("100%  2/2 users"))
                #expect(last.hasPrefix("[###") == (columns == 60))
            }
        }
    }

    /// A message with a title, a text, a link, and a warning.
    private static let sale = """
        {"for_apns":{"message":{"title":"여름 세일","body":"Half price\\nuntil midnight"},\
        "custom_field":{"url":"https://example.com/sale"},"push_token":"secret"},\
        "for_gcm":{"custom_field":{"marker":"m"}}}
        """

    @Test("The message is shown as phones show it: before an approval, with the push, and its beginning in lists")
    func message() async throws {
        try await withService {
            $0.pushes.approvalAboveUsers = 0
        } _: { service in
            try await service.database.addPhones([1])
            let creator = OperatorCommand("pushes", service.api.url)
            let sent = try await creator.run(["send", "--message", Self.sale, "--user", "1"])
            #expect(sent.errors.contains("warning: for_apns.push_token: Kakao reads"), "\(sent)")
            let id = try #require(sent.lines.first)
            let shown = try await creator.run(["show", id])
            let row = try #require(shown.lines.firstIndex { $0.hasPrefix("iPhone") })
            let lines = shown.lines[row...].map { String($0.drop { $0 == " " }) }
            #expect(lines[0].hasSuffix("  여름 세일"))
            #expect(
                lines[1..<4] == [
                    "Half price", "until midnight", "https://example.com/sale (for_apns.custom_field.url)",
                ]
            )
            #expect(lines[4].hasPrefix("Android") && lines[4].hasSuffix("(drawn by the app, from custom_field)"))
            #expect(lines[5].hasPrefix("warning") && lines.count == 6, "\(shown.output)")
            let list = try await creator.run(["list"]).lines
            let note =
                #/  by operator\.key, expires unless approved before [-0-9T:.]+Z, 여름 세일: Half price until midnight/#
            #expect(list[0].hasSuffix("hash") && list[2].wholeMatch(of: note) != nil, "\(list)")
            let key = try await OperatorKeyStore(pool: service.database.pool)
                .create(name: "approver", scopes: [.approve, .read], expiresAt: nil)
            let approver = OperatorCommand("pushes", service.api.url, key: key)
            let asked = try await approver.runOnTerminal(["approve", id], columns: 200, input: "y\n")
            let question = try #require(asked.output.firstRange(of: "Approve this push to 1 user of ")).lowerBound
            for text in ["until midnight", "https://example.com/sale", "warning"] {
                #expect(asked.output[..<question].contains(text), "\(asked.output)")
            }
            try await service.api.waitUntilDone("/v1/pushes/\(id)")
            let watched = try await creator.run(["watch", id])
            #expect(watched.errors.hasPrefix("warning: for_apns.push_token: "), "\(watched)")
            for result in [sent, shown, asked, watched] {
                #expect(!result.output.contains("secret") && !result.errors.contains("secret"))
            }
        }
    }

    @Test("copy sends a push again, after a question on a terminal")
    func copied() async throws {
        try await withService { service in
            try await service.database.addPhones([1, 2])
            let pushes = OperatorCommand("pushes", service.api.url)
            let id = try await pushes.run(["send", "--message", Self.sale, "--user", "1", "--watch"]).lines[0]
            let dry = try await pushes.run(["copy", id, "--dry-run"])
            #expect(dry.code == 0 && dry.lines.first == "users     1 (0 would be skipped)", "\(dry)")
            #expect(dry.output.contains("until midnight") && dry.output.contains("push_message="))
            let declined = try await pushes.runOnTerminal(["copy", id], input: "n\n")
            #expect(declined.code == 1 && declined.output.contains("Send to 1 user of "), "\(declined)")
            #expect(declined.output.contains("여름 세일"))
            #expect(declined.output.contains(/audience +\{"uuids":\["1"\]\}/), "\(declined)")
            #expect(try await service.database.count("pushes") == 1)
            let unasked = try await pushes.run(["copy", id])
            #expect(unasked.code == EX_USAGE && unasked.errors.contains("A copy needs --yes"), "\(unasked)")
            #expect(try await service.database.count("pushes") == 1)
            let again = ["copy", id, "--name", "Again", "--idempotency-key", "k", "--yes"]
            let copy = try await pushes.run(again + ["--watch"])
            #expect(copy.code == 0 && copy.lines.last == "done 100% 1/1 users", "\(copy)")
            #expect(try await service.api.shown("/v1/pushes/\(copy.lines[0])")["name"] == "Again")
            #expect(service.kakao.sandbox.reached(marker: "m").times == 2)
            #expect(try await pushes.run(again).lines == [copy.lines[0]])
            #expect(try await pushes.run(["copy", id, "--watch", "--dry-run"]).code != 0)
        }
    }

    @Test("On a terminal the operator must confirm a cancel, and a send to users who are not named one by one")
    func asked() async throws {
        try await withService {
            $0.kakao.appName = "Example Shop"
        } _: { service in
            let pushes = OperatorCommand("pushes", service.api.url)
            let later = ["--message", Self.message, "--at", "2100-01-01T00:00:00Z"]
            let id = try await pushes.run(["send", "--user", "1", "--name", "Sale"] + later).lines[0]
            let kept = try await pushes.runOnTerminal(["cancel", id], input: "n\n")
            #expect(kept.code == 1)
            for words in [/name +Sale/, /state +scheduled/, /"marker":"m"/, /users +none prepared yet/] {
                #expect(kept.output.contains(words), "\(kept)")
            }
            #expect(kept.output.contains("[y/N]") && kept.output.contains("Nothing was done."))
            #expect(try await service.api.state("/v1/pushes/\(id)") == "scheduled")
            let canceled = try await pushes.runOnTerminal(["cancel", id], input: "y\n")
            #expect(canceled.code == 0, "\(canceled)")
            #expect(try await service.api.state("/v1/pushes/\(id)") == "canceled")
            // There is nothing to ask.
            let again = try await pushes.runOnTerminal(["cancel", id])
            #expect(again.code == 0 && !again.output.contains("[y/N]"), "\(again)")
            let none = try await pushes.runOnTerminal(["send", "--everyone"] + later, input: "n\n")
            #expect(none.code == 1)
            #expect(none.output.contains("Send to 0 users of Example Shop? [y/N]"))
            #expect(try await service.database.count("pushes") == 1)
            try await service.database.addPhones(1...3)
            try await service.database.pool.write("UPDATE devices SET tags = '{a}'")
            let options = ["--name", "Sale", "--except-tag", "b", "--expires", "2100-01-02T00:00:00Z"]
            let tagged = try await pushes.runOnTerminal(["send", "--tag-any", "a"] + options + later, input: "n\n")
            #expect(tagged.code == 1 && tagged.output.contains("Send to 3 users of Example Shop?"))
            for words in [
                /name +Sale/, /audience +\{"tags_any":\["a"\]\}/, /except +\{"tags_any":\["b"\]\}/,
                /expires +2100-01-02/,
            ] {
                #expect(tagged.output.contains(words), "\(tagged)")
            }
            let path = try writeFile(
                Array((1...10_001).map { "\($0)\n" }.joined().utf8),
                to: "\(try TemporaryFolder.make())/users"
            )
            let listed = try await pushes.runOnTerminal(["send", "--users-file", path] + later, input: "\n")
            #expect(listed.code == 1 && listed.output.contains("Send to 3 users of Example Shop?"), "\(listed)")
            #expect(listed.output.contains("a file of 10,001 lines"), "\(listed)")
            #expect(try await service.database.count("audiences") == 0)
            #expect(try await service.database.count("pushes") == 1)
            #expect(try await pushes.run(["send", "--everyone", "--yes"] + later).code == 0)
            let sent = try await pushes.runOnTerminal(["send", "--tag-any", "a"] + later, input: "y\n")
            #expect(sent.code == 0, "\(sent)")
            // Named users need no confirmation.
            #expect(try await pushes.runOnTerminal(["send", "--user", "1"] + later, input: "").code == 0)
            #expect(try await service.database.count("pushes") == 4)
        }
    }

    @Test("On a terminal times are those of the server's zone, unless --utc is given, and --at is read in that zone")
    func localTimes() async throws {
        try await withService { service in
            try await service.database.addPhones(1...3)
            let pushes = OperatorCommand("pushes", service.api.url)
            // Midnight in UTC, a week ahead: nine in Seoul.
            let days = (Date().timeIntervalSince1970 / 86_400).rounded(.down) + 7
            let date = Date(timeIntervalSince1970: days * 86_400)
            let day = date.rfc3339Seconds.prefix(10)
            let options = ["--everyone", "--message", Self.message, "--kind", "informational", "--at", "\(day) 09:00"]
            let asked = try await pushes.runOnTerminal(["send"] + options, input: "y\n")
            #expect(asked.code == 0, "\(asked)")
            #expect(asked.output.contains("\(day) 09:00:00 +09:00 (Asia/Seoul), in "), "\(asked)")
            #expect(asked.output.contains("informational") && asked.output.contains("Send to 3 users"), "\(asked)")
            let listed = try await pushes.run(["list", "--json"])
            let push = try JSONValue(parsing: listed.lines[0])
            #expect(push["send_at"]?.string == date.rfc3339)
            let id = try #require(push["id"]?.string)
            let onTerminal = try await pushes.runOnTerminal(["show", id])
            #expect(onTerminal.output.contains("\(day) 09:00:00 +09:00"), "\(onTerminal)")
            #expect(try await pushes.runOnTerminal(["list"]).output.contains("+09:00"))
            for shown in [
                try await pushes.run(["show", id]), try await pushes.runOnTerminal(["show", id, "--utc"]),
            ] {
                #expect(shown.output.contains(date.rfc3339) && !shown.output.contains("+09:00"), "\(shown)")
            }
        }
    }

    @Test("A local time that does not exist, or exists twice, is refused before anything is sent")
    func refusedTimes() async throws {
        try await withService {
            $0.pushes.timeZone = "Europe/Berlin"
        } _: { service in
            let pushes = OperatorCommand("pushes", service.api.url)
            for (time, words) in [
                ("2025-03-30 02:30", "clocks go from 02:00 to 03:00"),
                ("2025-10-26 02:30", "2025-10-26T02:30:00+02:00 or 2025-10-26T02:30:00+01:00"),
            ] {
                let refused = try await pushes.run(["send", "--user", "1", "--message", Self.message, "--at", time])
                #expect(refused.code == EX_USAGE && refused.errors.contains(words), "\(refused)")
            }
            let past = try await pushes.run([
                "send", "--user", "1", "--message", Self.message, "--at", "2025-03-30 03:30",
            ])
            #expect(past.code == EX_USAGE && past.errors.contains("PostgreSQL's clock says"), "\(past)")
            #expect(past.errors.hasPrefix("push-server: --at 2025-03-30 03:30:00 +02:00 is more than"), "\(past)")
            let utc = try await pushes.run([
                "send", "--user", "1", "--message", Self.message, "--expires", "2025-03-30 03:30:00 +02:00", "--utc",
            ])
            #expect(utc.errors.hasPrefix("push-server: --expires 2025-03-30T01:30:00.000Z is past"), "\(utc)")
            let send = ["send", "--user", "1", "--message", Self.message]
            let order = ["--at", "2100-01-02 09:00:00 +09:00", "--expires", "2100-01-01 09:00:00 +09:00"]
            for (arguments, words) in [
                (send + ["--at", "tomorrow"], "--at must be \"YYYY-MM-DD HH:MM\""),
                (send + ["--at", "2026-12-01"], "--at must be"), (send + ["--expires", "soon"], "--expires must be"),
                (["list", "--since", "yesterday"], "--since must be"), (["list", "--until", "now"], "--until must be"),
                (send + order, "--expires must be after --at"), (send + ["--name", ""], "name must be"),
            ] {
                let refused = try await pushes.run(arguments)
                #expect(refused.code == EX_USAGE && refused.errors.hasPrefix("push-server: \(words)"), "\(refused)")
            }
            #expect(try await service.database.count("pushes") == 0)
        }
    }
}
