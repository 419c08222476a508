import FoundationEssentials
import HTTPClient
import HTTPTypes
import Identity
import JSON
import KakaoSandbox
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import ServiceKit
@testable import Sharing

/// Kakao's calls that upload files.
@Suite(.timeLimit(.minutes(5))) struct UploadRelayTests {
    private static let path = "/v2/api/talk/message/image/upload"

    private static func upload(
        _ service: TestService,
        _ form: MultipartBody
    ) async throws -> HTTPClientResponse {
        try await service.api.post(path, form.bytes, type: form.type)
    }

    @Test("An image is uploaded as Kakao's SDKs do, with fields before or after it, and Kakao's response comes back")
    func relayed() async throws {
        try await withAppKeyCalls { service in
            let image = TestImage.png(size: 3 << 20)
            for filesFirst in [true, false] {
                let form = MultipartBody(
                    fields: [("secure_resource", "false"), ("app_ver", "1")],
                    files: [("file", image)],
                    filesFirst: filesFirst
                )
                let answer = try await Self.upload(service, form)
                #expect(answer.status == 200)
                let original = answer.json?["infos"]?["original"]
                #expect(original?["url"]?.string?.hasPrefix("http://k.kakaocdn.net/") == true)
                #expect(original?["content_type"] == "image/png")
                #expect(original?["length"]?.integer == 3 << 20)
                #expect([original?["width"], original?["height"]] == [3, 2])
                let ignored = try #require(HTTPField.Name("X-Ignored-Parameters"))
                #expect(answer.headerFields[ignored] == "app_ver")
            }
            #expect(service.kakao.sandbox.imageUploadCount == 2)
            // The relay keeps nothing.
            #expect(try await service.database.count("images") == 0)
        }
    }

    @Test("The address is https unless secure_resource is false, and the name of the file does not matter")
    func secure() async throws {
        try await withAppKeyCalls { service in
            let answer = try await Self.upload(service, MultipartBody(files: [("photo", TestImage.png())]))
            #expect(answer.json?["infos"]?["original"]?["url"]?.string?.hasPrefix("https://") == true)
            let url = service.api.url + Self.path
            let file = "\(try TemporaryFolder.make())/cake.jpeg"
            try Data(TestImage.png()).write(to: URL(filePath: file))
            let byCurl = try await curl([url, "-F", "file=@\(file)", "-F", "secure_resource=true"])
            #expect(byCurl.status == "200")
            #expect(byCurl.body.contains("https://"))
        }
    }

    @Test("An invalid upload is rejected here, and does not reach Kakao")
    func invalid() async throws {
        try await withAppKeyCalls {
            $0.sharing.images.maximumBytes = 100_000
        } _: { service in
            let image = TestImage.png()
            let cases: [(MultipartBody, Int, String)] = [
                (MultipartBody(files: [("file", Array("BM".utf8))]), 400, "invalid-image"),
                (MultipartBody(files: [("file", TestImage.png(size: 100_001))]), 413, "content-too-large"),
                (MultipartBody(files: [("file", image), ("file", image)]), 400, "invalid-field"),
                (MultipartBody(fields: [("secure_resource", "true")], files: []), 400, "invalid-field"),
                (MultipartBody(fields: [("secure_resource", "yes")], files: [("file", image)]), 400, "invalid-field"),
            ]
            for (form, status, problem) in cases {
                let answer = try await Self.upload(service, form)
                #expect(answer.status == status)
                #expect(answer.problem == problem)
            }
            let form: KeyValuePairs = ["secure_resource": "true"]
            #expect(try await service.api.post(Self.path, form: form).status == 415)
            #expect(try await service.api.post(Self.path, image, type: "image/png").status == 415)
            let key = try await OperatorKeyStore(pool: service.database.pool)
                .create(name: "a", scopes: [.talk], expiresAt: nil)
            let other = service.api.with("Bearer \(key)")
            let upload = MultipartBody(files: [("file", image)])
            #expect(try await other.post(Self.path, upload.bytes, type: upload.type).status == 403)
            #expect(service.kakao.sandbox.stats.requests.isEmpty)
        }
    }

    @Test(
        "Kakao's rejection comes back with its code; without a response the answer is 503, since a repetition is harmless"
    )
    func failed() async throws {
        try await withAppKeyCalls {
            $0.sharing.images.maximumBytes = 6 << 20
        } _: { service in
            let large = try await Self.upload(
                service,
                MultipartBody(files: [("file", TestImage.png(size: 5 << 20 + 1))])
            )
            #expect(large.status == 400)
            #expect(large.json?["code"] == -602)
            var fault = Fault(.dropAfterBody)
            fault.path = Self.path
            service.kakao.sandbox.add(fault)
            let lost = try await Self.upload(service, MultipartBody(files: [("file", TestImage.png())]))
            #expect(lost.status == 503)
            #expect(lost.problem == "kakao-unavailable")
        }
    }

    @Test("Without sharing.app_key_calls the call is switched off")
    func notOffered() async throws {
        try await withSharedService { service in
            // The document describes the call nevertheless.
            let answer = try await curl(["\(service.api.url)\(Self.path)", "-F", "file=text"])
            #expect(answer.status == "403")
        }
    }
}
