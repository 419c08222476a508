import Endpoints
import FoundationEssentials
import JSON
import Server
import ServiceTesting
import Testing

/// `docs/kakao-coverage.md`, compared with the OpenAPI document.
struct CoverageTests {
    /// The endpoints that the page names, such as `POST /v1/link/shares`.
    static func named() throws -> Set<String> {
        let page = try String(contentsOfFile: "\(TestFiles.repository)/docs/kakao-coverage.md", encoding: .utf8)
        let words = page.split(separator: "`").map(String.init)
        return Set(words.filter { word in ["GET", "POST", "PUT", "DELETE"].contains { word.hasPrefix("\($0) /") } })
    }

    private static var declared: Set<String> {
        let paths = OpenAPIDocument.service.json["paths"]?.object?.members ?? []
        return Set(
            paths.flatMap { path, item in (item.object?.members ?? []).map { "\($0.name.uppercased()) \(path)" } }
        )
    }

    @Test("Every endpoint of the page exists")
    func existing() throws {
        let named = try Self.named()
        #expect(named.count > 10)
        #expect(named.subtracting(Self.declared) == [])
    }

    @Test("Every endpoint with a path of Kakao's is on the page")
    func complete() throws {
        let places = [
            "/v1/push/", "/v2/push/", "/kakao/push/", "/kakaolink/", "/kakao/link/", "/api/talk/", "/v1/user/",
            "/v2/user/", "/v2/app/", "/v1/api/story/", "/v1/friends", "/v1/system/", "/api/calendar/",
        ]
        let declared = Self.declared.filter { endpoint in places.contains { endpoint.contains($0) } }
        #expect(declared.subtracting(try Self.named()) == [])
    }
}
