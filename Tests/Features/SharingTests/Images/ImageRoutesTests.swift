import Endpoints
import EventLoop
import FoundationEssentials
import HTTPClient
import HTTPTypes
import Identity
import JSON
import KakaoAPI
import KakaoSandbox
import Logging
import Net
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import ServiceKit
@testable import Sharing

/// The images that the server keeps for messages.
@Suite(.timeLimit(.minutes(5))) struct ImageRoutesTests {
    private static let path = "/v1/images"
    private static let kakaoPath = "/v2/api/talk/message/image/upload"

    private static func post(
        _ api: TestClient,
        _ bytes: [UInt8] = TestImage.png(),
        type: String? = "image/png"
    ) async throws -> HTTPClientResponse {
        try await api.post(path, bytes, type: type)
    }

    /// Posts images, all at once.
    private static func post(_ images: [(api: TestClient, bytes: [UInt8])]) async throws -> [HTTPClientResponse] {
        try await withThrowingTaskGroup(of: HTTPClientResponse.self) { group in
            for (api, bytes) in images { group.addTask { try await post(api, bytes) } }
            var answers: [HTTPClientResponse] = []
            for try await answer in group { answers.append(answer) }
            return answers
        }
    }

    private static func fail(_ service: TestService, _ kind: Fault.Kind, _ adjust: (inout Fault) -> Void = { _ in }) {
        var fault = Fault(kind)
        fault.path = kakaoPath
        adjust(&fault)
        service.kakao.sandbox.add(fault)
    }

    /// Makes the copies of all images at Kakao expire in this number of days.
    private static func expire(_ service: TestService, inDays days: Int) async throws {
        try await service.database.pool.write("UPDATE images SET expires_at = now() + interval '\(days) days'")
    }

    /// Lets claims of failed uploads end at once.
    private static func endLeases(_ service: TestService) async throws {
        try await service.database.pool.write("UPDATE images SET lease = NULL, lease_ends_at = NULL")
    }

    private static func used(_ service: TestService) async throws -> Int64 {
        try await service.database.integer("SELECT bytes FROM image_storage")
    }

    @Test("An image is stored and uploaded once per content, as the body, as a form, and with curl")
    func once() async throws {
        try await withAppKeyCalls { service in
            let answer = try await Self.post(service.api)
            #expect(answer.status == 201)
            let id = try #require(answer.json?["id"]?.string)
            #expect(answer.headerFields[.location] == "\(Self.path)/\(id)")
            #expect(id == id.lowercased())
            #expect(answer.json?["url"] == "https://k.kakaocdn.net/14/dn/upload1/original.png")
            #expect(answer.json?["content_type"] == "image/png")
            #expect(answer.json?["bytes"] == 64)
            #expect(answer.json?["width"] == 3)
            #expect(answer.json?["height"] == 2)
            let expiry = try #require(answer.json?["expires_at"]?.string.flatMap { Date(rfc3339: $0) })
            #expect(abs(expiry.timeIntervalSinceNow - 20 * 86_400) < 600)
            #expect(service.kakao.sandbox.uploadedImages.first?.length == 64)

            // The type of the content counts, whatever the header says.
            for type in ["image/jpeg", "application/octet-stream"] {
                let again = try await Self.post(service.api, type: type)
                #expect(again.status == 200)
                #expect(again.body == answer.body)
                #expect(again.headerFields[.location] == nil)
            }
            let form = MultipartBody(files: [("photo", TestImage.png())])
            #expect(try await service.api.post(Self.path, form.bytes, type: form.type).body == answer.body)

            let file = "\(try TemporaryFolder.make())/cake.png"
            try Data(TestImage.png()).write(to: URL(filePath: file))
            let url = service.api.url + Self.path
            let byForm = try await curl([url, "-F", "file=@\(file)"])
            #expect([byForm.status, byForm.body] == ["200", answer.text])
            let byBody = try await curl([url, "--data-binary", "@\(file)", "-H", "Content-Type: image/png"])
            #expect([byBody.status, byBody.body] == ["200", answer.text])
            let byExpectation = try await curl([url, "-F", "file=@\(file)", "-H", "Expect: 100-continue"])
            #expect(byExpectation.body.contains(id))

            #expect(service.kakao.sandbox.imageUploadCount == 1)
            #expect(try await Self.used(service) == 64)
        }
    }

    @Test("Fifty concurrent requests to two servers upload each of five images once")
    func concurrent() async throws {
        try await withAppKeyCalls { service in
            Self.fail(service, .latency) { $0.milliseconds = 300 }
            try await RunningServer.with(service.settings) { other in
                let answers = try await Self.post(
                    (0..<50).map { ($0 % 2 == 0 ? service.api : other, TestImage.png(UInt8($0 % 5), size: 20_000)) }
                )
                #expect(answers.count { $0.status == 201 } == 5)
                #expect(answers.count { $0.status == 200 } == 45)
                #expect(Set(answers.compactMap { $0.json?["url"]?.string }).count == 5)
            }
            #expect(service.kakao.sandbox.imageUploadCount == 5)
            #expect(service.kakao.sandbox.stats.requests[Self.kakaoPath] == 5)
            #expect(try await Self.used(service) == 100_000)
            #expect(try await service.database.count("images WHERE lease IS NOT NULL") == 0)
        }
    }

    @Test("An image is uploaded again when its copy at Kakao remains for less than ten days")
    func expiry() async throws {
        try await withAppKeyCalls { service in
            let first = try await Self.post(service.api)
            try await Self.expire(service, inDays: 11)
            #expect(try await Self.post(service.api).json?["url"] == first.json?["url"])
            try await Self.expire(service, inDays: 9)
            let id = try #require(first.json?["id"]?.string)
            // Reading does not upload.
            #expect(try await service.api.get("\(Self.path)/\(id)").json?["url"] == first.json?["url"])
            let again = try await Self.post(service.api)
            #expect(again.status == 200)
            #expect(again.json?["id"]?.string == id)
            #expect(again.json?["url"] == "https://k.kakaocdn.net/14/dn/upload2/original.png")
            #expect(service.kakao.sandbox.imageUploadCount == 2)
        }
    }

    @Test("While Kakao does not respond, the answer is 503 with Retry-After; the image is uploaded by the next request")
    func lost() async throws {
        try await withAppKeyCalls { service in
            for kind in [Fault.Kind.dropAfterBody, .down, .dropBeforeBody] {
                service.kakao.sandbox.removeFaults()
                Self.fail(service, kind)
                let answer = try await Self.post(service.api)
                #expect(answer.status == 503)
                #expect(answer.problem == "kakao-unavailable")
                #expect(answer.headerFields[.retryAfter] == "5")
                try await Self.endLeases(service)
            }
            service.kakao.sandbox.removeFaults()
            #expect(try await service.database.count("images WHERE url IS NULL") == 1)
            let answer = try await Self.post(service.api)
            #expect(answer.status == 200)
            #expect(answer.json?["url"]?.string?.hasPrefix("https://") == true)
            #expect(try await service.database.count("images") == 1)
        }
    }

    @Test("A request waits for the upload of a server that has crashed, and uploads when its lease has ended")
    func crashed() async throws {
        try await withAppKeyCalls { service in
            let first = try await Self.post(service.api)
            try await Self.expire(service, inDays: 1)
            let lease = "lease = gen_random_uuid(), lease_ends_at = now() + "
            try await service.database.pool.write("UPDATE images SET \(lease) interval '1 hour'")
            let busy = try await Self.post(service.api)
            #expect(busy.status == 503)
            #expect(busy.problem == "kakao-unavailable")
            #expect(busy.headerFields[.retryAfter] == "5")
            #expect(service.kakao.sandbox.imageUploadCount == 1)
            try await service.database.pool.write("UPDATE images SET \(lease) interval '1 second'")
            let answer = try await Self.post(service.api)
            #expect(answer.status == 200)
            #expect(answer.json?["url"] != first.json?["url"])
            #expect(service.kakao.sandbox.imageUploadCount == 2)
        }
    }

    @Test("An upload ends although its client has gone, so that others need not wait for its lease")
    func gone() async throws {
        try await withAppKeyCalls { service in
            Self.fail(service, .latency) { $0.milliseconds = 600_000 }
            let image = TestImage.png()
            let upload = try RawUpload(
                service.api,
                Self.path,
                length: image.count,
                method: "POST",
                type: "image/png"
            )
            try upload.send(image)
            try await eventually("Kakao has the image") { service.kakao.sandbox.imageUploadCount == 1 }
            upload.abandon()
            service.kakao.endFaults()
            try await eventually("the address is stored") {
                try await service.database.count("images WHERE url IS NOT NULL AND lease IS NULL") == 1
            }
        }
    }

    @Test("What Kakao rejects is answered with Kakao's code, and does not count as uploaded")
    func rejected() async throws {
        try await withAppKeyCalls {
            $0.sharing.images.maximumBytes = 6 << 20
            // Storing five megabytes takes long on a slow machine.
            $0.databaseTimeout = .seconds(60)
        } _: { service in
            let large = try await Self.post(service.api, TestImage.png(size: 5 << 20 + 1))
            #expect(large.status == 400)
            #expect(large.problem == "refused-by-kakao")
            #expect(large.json?["code"] == -602)
            Self.fail(service, .status) {
                $0.status = 400
                $0.code = -911
                $0.message = "not supported, key=sandbox-native-app-key"
            }
            let format = try await Self.post(service.api)
            #expect(format.status == 400)
            #expect(format.json?["code"] == -911)
            #expect(!format.text.contains("sandbox-native-app-key"))
            #expect(try await service.database.count("images WHERE url IS NULL") == 2)
            try await Self.endLeases(service)
            service.kakao.sandbox.removeFaults()
            for (status, code, answer) in [(401, -401, 502), (500, -1, 503), (400, -1, 503), (400, -10, 400)] {
                Self.fail(service, .status) {
                    $0.status = status
                    $0.code = code
                    $0.times = 1
                }
                #expect(try await Self.post(service.api).status == answer)
                try await Self.endLeases(service)
            }
            #expect(try await Self.post(service.api).status == 200)
            #expect(service.log.messages(.info).contains("Image upload failed"))
            #expect(!service.log.lines.contains { $0.text.contains("sandbox-native-app-key") })
        }
    }

    @Test("Only JPEG, PNG and GIF are accepted, by their content, and one of them in a request")
    func invalid() async throws {
        try await withAppKeyCalls { service in
            let webP = try await Self.post(service.api, Array("RIFF1234WEBPVP8 ".utf8))
            #expect(webP.status == 400)
            #expect(webP.problem == "invalid-image")
            #expect(
                webP.json?["detail"]?.string?.hasPrefix("The file is WebP. Kakao accepts JPEG, PNG and GIF") == true
            )
            #expect(try await Self.post(service.api, []).problem == "invalid-image")
            #expect(try await Self.post(service.api, type: FormBody.contentType).status == 415)
            #expect(try await Self.post(service.api, type: nil).status == 415)

            let image = TestImage.png()
            let two = MultipartBody(files: [("file", image), ("file", image)])
            #expect(try await Self.post(service.api, two.bytes, type: two.type).field == "file")
            let none = MultipartBody(files: [])
            #expect(try await Self.post(service.api, none.bytes, type: none.type).field == "file")
            let field = MultipartBody(fields: [("campaign", "a")], files: [("file", image)])
            let unknown = try await Self.post(service.api, field.bytes, type: field.type)
            #expect(unknown.field == "campaign")
            let malformed = try await Self.post(service.api, Array(two.bytes.dropLast(8)), type: two.type)
            #expect(malformed.status == 400)
            let text = try await Self.post(service.api, image, type: "multipart/form-data")
            #expect(text.problem == "bad-request")
            #expect(text.json?["detail"]?.string?.contains("boundary") == true)
            #expect(try await service.database.count("images") == 0)
            #expect(service.kakao.sandbox.stats.requests.isEmpty)
        }
    }

    @Test("An image of exactly images.max_bytes is accepted, and one byte more is 413 before it was read")
    func tooLarge() async throws {
        try await withAppKeyCalls {
            $0.sharing.images.maximumBytes = 2 << 20
        } _: { service in
            let limit = 2 << 20
            #expect(try await Self.post(service.api, TestImage.png(size: limit)).status == 201)
            let large = try await Self.post(service.api, TestImage.png(size: limit + 1))
            #expect(large.status == 413)
            #expect(large.json?["detail"] == "A file must have at most 2097152 bytes (`images.max_bytes`).")
            for (size, status) in [(limit, 200), (limit + 1, 413)] {
                let form = MultipartBody(files: [("file", TestImage.png(size: size))])
                #expect(try await Self.post(service.api, form.bytes, type: form.type).status == status)
            }
            let fields = MultipartBody(fields: [("a", String(repeating: "x", count: 70_000))], files: [])
            #expect(try await Self.post(service.api, fields.bytes, type: fields.type).status == 413)
            // The response comes while the client still has most of the body.
            let upload = try RawUpload(service.api, Self.path, length: 1 << 40, method: "POST", type: "image/png")
            #expect(try await upload.answer().hasPrefix("HTTP/1.1 413"))
            #expect(try await service.database.count("images") == 1)
        }
    }

    @Test("At most four uploads are in memory; a fifth waits for a place, and is answered 503 without one")
    func tooMany() async throws {
        try await withAppKeyCalls {
            // Longer than the test, on a machine of any speed.
            $0.sharing.images.pace = UploadPace(grace: .seconds(600))
        } _: { service in
            let image = TestImage.png()
            let form = MultipartBody(files: [("file", image)])
            let held = try (0..<4).map { _ in
                try RawUpload(service.api, Self.path, length: form.bytes.count, method: "POST", type: form.type)
            }
            for upload in held { try upload.send(Array(form.bytes.prefix(20))) }
            try await eventually("all places are taken") {
                try await Self.post(service.api).problem == "too-many-uploads"
            }
            async let waiting = Self.post(service.api, TestImage.png(1))
            for upload in held { try upload.send(Array(form.bytes.dropFirst(20))) }
            for upload in held {
                let status = try await upload.answer().prefix(12)
                #expect(status == "HTTP/1.1 201" || status == "HTTP/1.1 200")
            }
            #expect(try await waiting.status == 201)
        }
    }

    @Test("An upload that is slower than the pace is answered 408, and its place is free for others")
    func slow() async throws {
        try await withAppKeyCalls {
            $0.sharing.images.pace = UploadPace(grace: .zero, bytesPerSecond: .max)
        } _: { service in
            let form = MultipartBody(files: [("file", TestImage.png())])
            // More than the places.
            for _ in 0..<6 {
                let upload = try RawUpload(
                    service.api,
                    Self.path,
                    length: form.bytes.count,
                    method: "POST",
                    type: form.type
                )
                try upload.send(Array(form.bytes.prefix(20)))
                let answer = try await upload.answer()
                #expect(answer.hasPrefix("HTTP/1.1 408"))
                #expect(answer.contains("Files must arrive at"))
            }
        }
    }

    @Test("Images take images.max_total_bytes together, also if they come at once; a deleted one frees its space")
    func total() async throws {
        try await withAppKeyCalls {
            $0.sharing.images.maximumTotalBytes = 1000
        } _: { service in
            let answers = try await Self.post((0..<6).map { (service.api, TestImage.png($0, size: 300)) })
            #expect(answers.count { $0.status == 201 } == 3)
            #expect(answers.filter { $0.status == 507 }.map(\.problem) == Array(repeating: "images-full", count: 3))
            #expect(try await Self.used(service) == 900)
            let stored = try #require(answers.filter { $0.status == 201 }[0].json?["id"]?.string)
            #expect(try await service.api.delete("\(Self.path)/\(stored)").status == 204)
            #expect(try await service.api.delete("\(Self.path)/\(stored)").status == 404)
            #expect(try await Self.used(service) == 600)
            #expect(try await Self.post(service.api, TestImage.png(9, size: 300)).status == 201)
            // Kakao keeps its copy, which delivered messages show.
            #expect(service.kakao.sandbox.uploadedImages.count == 4)
            #expect(service.kakao.sandbox.stats.requests.keys.sorted() == [Self.kakaoPath])
        }
    }

    @Test("Concurrent uploads and deletions of one content leave the size of what is stored")
    func churn() async throws {
        try await withAppKeyCalls { service in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<40 {
                    group.addTask {
                        var answer: HTTPClientResponse
                        // A request that has waited 10 s for other uploads of the image is told to try again.
                        repeat {
                            answer = try await Self.post(service.api, TestImage.png(UInt8(number % 2)))
                        } while answer.problem == "kakao-unavailable"
                        #expect([200, 201, 404].contains(answer.status), "\(answer.text)")
                        guard number % 3 == 0, let id = answer.json?["id"]?.string else { return }
                        #expect([204, 404].contains(try await service.api.delete("\(Self.path)/\(id)").status))
                    }
                }
                try await group.waitForAll()
            }
            let stored = try await service.database.integer("SELECT COALESCE(sum(size), 0)::bigint FROM images")
            #expect(try await Self.used(service) == stored)
        }
    }

    @Test("Images are listed in pages, the latest first")
    func list() async throws {
        try await withAppKeyCalls { service in
            var ids: [JSONValue] = []
            for number: UInt8 in 0..<3 {
                let answer = try await Self.post(service.api, TestImage.png(number))
                ids.insert(try #require(answer.json?["id"]), at: 0)
            }
            let first = try await service.api.get(Self.path, ["limit": "2"])
            #expect(first.json?["items"]?.array?.map { $0["id"] } == Array(ids[..<2]))
            let next = try #require(first.json?["next"]?.string)
            let second = try await service.api.get(Self.path, ["cursor": next])
            #expect(second.json?["items"]?.array?.map { $0["id"] } == [ids[2]])
            #expect(second.json?["next"]?.isNull == true)
            for path in ["01926f3e-7a5b-7c3d-9e1f-0a2b3c4d5e6f", "x"] {
                #expect(try await service.api.get("\(Self.path)/\(path)").status == 404)
            }
        }
    }

    @Test("A key needs the scope sharing, and the server an app key")
    func access() async throws {
        try await withAppKeyCalls { service in
            let store = OperatorKeyStore(pool: service.database.pool)
            for (scope, status) in [(Scope.sharing, 201), (.read, 403), (.send, 403)] {
                let key = try await store.create(name: scope.rawValue, scopes: [scope], expiresAt: nil)
                let api = service.api.with("Bearer \(key)")
                #expect(try await Self.post(api).status == status)
                #expect(try await api.get(Self.path).status == (status == 201 ? 200 : 403))
            }
        }
        try await withSharedService { service in
            let answer = try await Self.post(service.api)
            #expect(answer.status == 409)
            #expect(answer.problem == "not-configured")
            #expect(answer.json?["detail"]?.string?.contains("sharing.app_key_calls") == true)
            #expect(try await service.api.get(Self.path).json?["items"] == [])
            #expect(try await service.database.count("images") == 0)
        }
    }
}
