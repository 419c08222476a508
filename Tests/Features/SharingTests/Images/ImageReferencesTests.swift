import EventLoop
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Locking
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import ServiceKit
@testable import Sharing

/// References to kept images in templates.
@Suite(.timeLimit(.minutes(5))) struct ImageReferencesTests {
    private static let known = "01926f3e-7a5b-7c3d-9e1f-0a2b3c4d5e6f"

    /// A source with one image, which counts its questions.
    private final class OneImage: ImageSource {
        let questions = Locked(0)

        func url(of id: UUID) async throws -> String? {
            questions.withLock { $0 += 1 }
            return id.lowercased == ImageReferencesTests.known ? "https://k.kakaocdn.net/a.png" : nil
        }
    }

    private static func problem(_ resolver: ImageReferences, _ template: JSONValue) async -> Problem? {
        do {
            _ = try await resolver.resolve(template)
            return nil
        } catch {
            return error as? Problem
        }
    }

    @Test("Each reference becomes the address at Kakao, in every member that is the address of an image")
    func replaced() async throws {
        let source = OneImage()
        let resolver = ImageReferences(source)
        let reference = JSONValue.string("image:\(Self.known)")
        let url: JSONValue = "https://k.kakaocdn.net/a.png"
        func template(_ image: JSONValue) -> JSONValue {
            [
                "object_type": "list", "header_title": reference, "text": "image:x",
                "contents": [
                    ["title": "A", "image_url": image, "link": ["web_url": reference]],
                    ["title": "B", "image_url": "https://example.com/b.png"],
                    ["image_url": .string("image:\(Self.known.uppercased())")],
                ],
                "item_content": ["profile_image_url": image, "title_image_url": image, "items": [1, nil, true]],
            ]
        }
        var expected = template(url)
        if case .object(var object) = expected, case .array(var contents)? = object["contents"] {
            contents[2] = ["image_url": url]
            object["contents"] = .array(contents)
            expected = .object(object)
        }
        #expect(try await resolver.resolve(template(reference)) == expected)
        #expect(source.questions.withLock { $0 } == 1)
        let plain: JSONValue = ["text": "image:x", "image_url": 1]
        #expect(try await resolver.resolve(plain) == plain)
    }

    @Test("An unknown image is named by its JSON path")
    func unknown() async throws {
        let resolver = ImageReferences(OneImage())
        let id = "image:01926f3e-7a5b-7c3d-9e1f-000000000000"
        let cases: [(JSONValue, String)] = [
            (["content": ["image_url": .string(id)]], "$.content.image_url"),
            (["contents": [[:], ["image_url": .string(id)]]], "$.contents[1].image_url"),
            (["a b": ["title_image_url": "image:"]], "$[\"a b\"].title_image_url"),
            (["profile_image_url": "image:cake"], "$.profile_image_url"),
        ]
        for (template, path) in cases {
            let problem = await Self.problem(resolver, template)
            #expect(problem?.status.code == 400)
            #expect(problem?.kind == "unknown-image")
            #expect(problem?.members["path"]?.string == path)
            #expect(problem?.detail.hasPrefix(path) == true)
        }
    }

    @Test(
        "An image is uploaded when it is resolved if its copy at Kakao is about to expire, once for all who resolve it"
    )
    func uploaded() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let settings = KakaoAPISettings(
                apiURL: kakao.sandbox.url,
                adminKey: KakaoKey(Keys.admin),
                app: KakaoAppKey(key: KakaoKey("sandbox-native-app-key"), ka: "sdk/2.27.3")
            )
            let client = HTTPClient(loop: try Shared.loop)
            func library(_ settings: KakaoAPISettings) throws -> ImageLibrary {
                ImageLibrary(
                    store: ImageStore(pool: database.pool),
                    kakao: KakaoClient(settings: settings, client: client),
                    loop: try Shared.loop,
                    maximumTotalBytes: 1000,
                    uploads: ConcurrencyLimit(4),
                    logger: quietLogger
                )
            }
            let images = try library(settings)
            let bytes = TestImage.png()
            let id = try await images.add(ImageHeader(bytes), bytes, recording: { _ in nil }).0.id
            let template: JSONValue = ["image_url": .string("image:\(id.lowercased)")]
            let resolver = ImageReferences(images)
            func resolve() async throws -> Set<String> {
                try await withThrowingTaskGroup(of: String?.self) { group in
                    for _ in 0..<8 { group.addTask { try await resolver.resolve(template)["image_url"]?.string } }
                    return try await group.reduce(into: []) { if let url = $1 { $0.insert(url) } }
                }
            }
            #expect(try await resolve() == ["https://k.kakaocdn.net/14/dn/upload1/original.png"])
            try await database.pool.write("UPDATE images SET expires_at = now() + interval '10 days 1 minute'")
            #expect(try await resolve() == ["https://k.kakaocdn.net/14/dn/upload1/original.png"])
            try await database.pool.write("UPDATE images SET expires_at = now() + interval '10 days'")
            #expect(try await resolve() == ["https://k.kakaocdn.net/14/dn/upload2/original.png"])
            #expect(kakao.sandbox.imageUploadCount == 2)
            // Without an app key, a fresh copy is used, and another one is a problem.
            var bare = settings
            bare.app = nil
            let without = ImageReferences(try library(bare))
            #expect(await Self.problem(without, template) == nil)
            try await database.pool.write("UPDATE images SET expires_at = now()")
            #expect(await Self.problem(without, template)?.kind == "not-configured")
            await client.shutdown()
        }
    }

    @Test("The result of an upload whose lease was taken over is not stored")
    func lateResult() async throws {
        try await TestDatabase.with { database in
            let store = ImageStore(pool: database.pool)
            let bytes = TestImage.png()
            let header = try ImageHeader(bytes)
            let image = NewImage(id: .v7(), header: header, sha256: [UInt8](repeating: 1, count: 32), bytes: bytes)
            #expect(try await store.insert(image, maximumTotal: 1000, recording: nil))
            #expect(try await !store.insert(image, maximumTotal: 1000, recording: nil))
            let late = try #require(try await store.claim(image.id))
            #expect(late.bytes == bytes)
            #expect(try await store.claim(image.id) == nil)
            #expect(try await store.find(image.id)?.isLeased == true)
            try await database.pool.write("UPDATE images SET lease_ends_at = now()")
            let claim = try #require(try await store.claim(image.id))
            #expect(try await store.complete(late, url: "https://late") == nil)
            try await store.release(late)
            #expect(try await store.claim(image.id) == nil)
            #expect(try await store.complete(claim, url: "https://new")?.copy?.url == "https://new")
            #expect(try await store.complete(claim, url: "https://again") == nil)
            // Nothing is left to claim.
            #expect(try await store.claim(image.id) == nil)
            #expect(try await store.find(image.id)?.copy?.isFresh == true)
        }
    }
}
