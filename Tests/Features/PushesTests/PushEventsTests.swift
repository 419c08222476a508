import Endpoints
import FoundationEssentials
import HTTPClient
import JSON
import KakaoSandbox
import Postgres
import ServiceTesting
import TestSupport
import Testing

/// Tests of `GET /v1/pushes/{id}/events`, most of them with `curl -N`.
@Suite(.timeLimit(.minutes(5))) struct PushEventsTests {
    /// The response that `curl` has received so far.
    private struct Stream {
        let file: String

        init() throws {
            file = "\(try TemporaryFolder.make())/events"
        }

        /// The body.
        var text: String { received.firstRange(of: "\r\n\r\n").map { String(received[$0.upperBound...]) } ?? "" }

        var head: String { received.firstRange(of: "\r\n\r\n").map { String(received[..<$0.lowerBound]) } ?? "" }

        private var received: String {
            String(decoding: (try? Data(contentsOf: URL(filePath: file))) ?? Data(), as: UTF8.self)
        }

        /// The data of the events that are complete.
        var pushes: [JSONValue] {
            get throws {
                try text.split(separator: "\n\n").filter { $0.hasPrefix("event: push\ndata: ") && $0.hasSuffix("}") }
                    .map {
                        try JSONValue(parsing: String($0.dropFirst("event: push\ndata: ".count)))
                    }
            }
        }

        func follow(_ api: TestClient, _ push: String) async throws -> CurlAnswer {
            try await curl(["-N", "-o", file, "\(api.url)\(push)/events"])
        }
    }

    @Test("The first event is sent at once, another when the push changes, and the last when it has ended")
    func life() async throws {
        try await withService { service in
            try await service.database.addPhones([1])
            let push = try await service.api.create(uuids([1]), gcm(), ["send_at": "2099-01-01T00:00:00Z"])
            let stream = try Stream()
            async let end = stream.follow(service.api, push)
            try await eventually("the first event is received") { try stream.pushes.count == 1 }
            #expect(stream.head.lowercased().contains("content-type: text/event-stream"))
            #expect(stream.head.lowercased().contains("x-accel-buffering: no"))
            #expect(try stream.pushes == [try await service.api.summary(push)])
            #expect(try await service.api.control(push, "pause") == 200)
            try await eventually("an event has the state paused") {
                try stream.pushes.last?["state"] == "paused"
            }
            #expect(try stream.pushes.count == 2)
            try await service.database.pool.write("UPDATE pushes SET send_at = now()")
            #expect(try await service.api.control(push, "resume") == 200)
            #expect(try await end.status == "200")
            let last = try #require(try stream.pushes.last)
            #expect(last["state"] == "done")
            #expect(last == (try await service.api.summary(push)))
            #expect(stream.text.hasSuffix("}\n\n"))
        }
    }

    @Test(
        "A stream ends with its key: when the key is revoked, or loses its scope",
        arguments: ["revoked_at = now()", "scopes = '{send}'"]
    )
    func revoked(change: String) async throws {
        try await withService { service in
            let push = try await service.api.create(["everyone": true], gcm(), ["send_at": "2099-01-01T00:00:00Z"])
            let reader = service.api.with("Bearer \(try await service.operatorKey(.read))")
            let stream = try RawUpload(reader, "\(push)/events", length: 0, method: "GET")
            var received = ""
            while !received.contains("}\n\n"), let piece = await stream.receive(4096) {
                received += String(decoding: piece, as: UTF8.self)
            }
            #expect(received.contains("event: push\ndata: {"))
            try await service.database.pool.write("UPDATE operator_keys SET \(change)")
            while let piece = await stream.receive(4096) { received += String(decoding: piece, as: UTF8.self) }
            // The last chunk: the response is complete.
            #expect(received.hasSuffix("0\r\n\r\n"))
        }
    }

    @Test("A push that has ended has one event")
    func ended() async throws {
        try await withService { service in
            let push = try await service.api.create()
            try await service.api.waitUntilDone(push)
            let stream = try Stream()
            #expect(try await stream.follow(service.api, push).status == "200")
            #expect(try stream.pushes == [try await service.api.summary(push)])
        }
    }

    @Test("Open streams do not delay the server's shutdown, and end with complete events")
    func shutdown() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let server = try await RunningServer.start(
                .test(database.url, kakao: kakao.sandbox.url),
                log: CollectedLog()
            )
            let api = TestClient(url: server.url)
            let push = try await api.create(["everyone": true], gcm(), ["send_at": "2099-01-01T00:00:00Z"])
            let streams = try (1...3).map { _ in try Stream() }
            try await withThrowingTaskGroup(of: CurlAnswer.self) { group in
                for stream in streams { group.addTask { try await stream.follow(api, push) } }
                try await eventually("all streams are open") { try streams.allSatisfy { try $0.pushes.count == 1 } }
                async let stop: Void = server.stop()
                for try await answer in group {
                    #expect(answer.status == "200")
                    // Other requests in flight would get some time, and be cut off then.
                    #expect(answer.exitCode == 0)
                }
                try await stop
            }
            for stream in streams { #expect(stream.text.hasSuffix("}\n\n")) }
        }
    }

    @Test("Streams that clients abandon do not affect the push or the server")
    func abandoned() async throws {
        try await withService { service in
            let push = try await service.api.create(["everyone": true], gcm(), ["send_at": "2099-01-01T00:00:00Z"])
            for _ in 1...3 {
                let stream = try RawUpload(service.api, "\(push)/events", length: 0, method: "GET")
                var received = ""
                while !received.contains("}\n\n"), let piece = await stream.receive(4096) {
                    received += String(decoding: piece, as: UTF8.self)
                }
                #expect(received.contains("event: push\ndata: {"))
                stream.abandon()
            }
            #expect(try await service.api.control(push, "cancel") == 200)
            #expect(try await service.api.state(push) == "canceled")
        }
    }
}
