import Endpoints
import FoundationEssentials
import JSON
import KakaoAPI
import Server
import ServiceTesting
import Testing

/// `docs/differences.md`, compared with the OpenAPI document, the settings and the other pages.
struct DifferencesTests {
    private static func contents(_ file: String) throws -> String {
        try String(contentsOfFile: "\(TestFiles.repository)/\(file)", encoding: .utf8)
    }

    private static let page = Result { try contents("docs/differences.md") }

    /// The rows of the table, without its head, each with the texts of its cells.
    private static func rows() throws -> [[String]] {
        let lines = try page.get().split(separator: "\n").filter { $0.hasPrefix("|") }
        return lines.dropFirst(2).map { line in
            line.dropFirst().dropLast().split(separator: "|", omittingEmptySubsequences: false).map { cell in
                cell.split(separator: " ").joined(separator: " ")
            }
        }
    }

    /// The texts of a cell in backticks.
    private static func names(in cell: String) -> [String] {
        cell.matches(of: /`([^`]+)`/).map { String($0.1) }
    }

    private static let paths = OpenAPIDocument.service.json["paths"]?.object?.members ?? []

    /// The operations that have a path of Kakao's, by `METHOD /path`.
    private static var kakaoOperations: [String: JSONValue] {
        let kakao = Set(KakaoCalls.all.flatMap { $0.paths })
        var operations: [String: JSONValue] = [:]
        for (path, item) in paths where kakao.contains(path) || path.contains("/push/") && !path.hasPrefix("/kakao/") {
            for (method, operation) in item.object?.members ?? [] {
                operations["\(method.uppercased()) \(path)"] = operation
            }
        }
        return operations
    }

    @Test("All differences are in one table, each with a subject of its own, an operation and a page")
    func table() throws {
        let rows = try Self.rows()
        #expect(rows.count > 25)
        let page = try Self.page.get()
        #expect(page.matches(of: /\| --- \|.*\n/).count == 1)
        #expect(Set(rows.map { $0[0] }).count == rows.count)
        let declared = Set(
            Self.paths.flatMap { path, item in (item.object?.members ?? []).map { "\($0.name.uppercased()) \(path)" } }
        )
        for row in rows {
            #expect(row.count == 4, "\(row)")
            let operations = Self.names(in: row[3])
            #expect(!operations.isEmpty && declared.isSuperset(of: operations), "\(row[0])")
            let links = row[0].matches(of: /\]\((\w[\w-]*\.md)(?:#([\w-]+))?\)/)
            #expect(!links.isEmpty, "\(row[0])")
            for link in links {
                let headings = try Self.contents("docs/\(link.1)").matches(of: /\n#+ (.+)/).map { heading in
                    heading.1.lowercased().filter { $0.isLetter || $0.isNumber || " -_".contains($0) }
                        .replacing(" ", with: "-")
                }
                #expect(link.2.map { headings.contains(String($0)) } ?? true, "\(row[0]): \(link.0)")
            }
        }
    }

    @Test("The settings on the page exist")
    func settings() throws {
        let table = try Self.contents("docs/settings.md")
        let page = try Self.page.get()
        let named = Self.names(in: page).filter { $0.wholeMatch(of: /[a-z]+\.[a-z_]+/) != nil }
        #expect(named.count > 5)
        for name in named { #expect(table.contains("| `\(name)` |"), "\(name)") }
    }

    @Test("Each header and each problem of a call in Kakao's format that only this server has is on the page")
    func complete() throws {
        let operations = Self.kakaoOperations
        #expect(operations.count > 50)
        let page = try Self.page.get()
        let named = Set(Self.names(in: page))
        var headers: Set<String> = []
        var problems: Set<String> = []
        let shared = OpenAPIDocument.service.json["components"]?["responses"]
        for operation in operations.values {
            for (status, response) in operation["responses"]?.object?.members ?? [] {
                // A problem is described in the operation, or in a component that it refers to.
                let component = response["$ref"]?.string?.split(separator: "/").last.map(String.init)
                let described = component.flatMap { shared?[$0] } ?? response
                headers.formUnion((described["headers"]?.object?.members ?? []).map(\.name))
                guard status != "200", let description = described["description"]?.string else { continue }
                problems.formUnion(description.matches(of: /`([a-z-]+)`:/).map { String($0.1) })
            }
        }
        #expect(headers.subtracting(named) == [])
        // Those of Kakao's own that have the same meaning there, and those of every HTTP server.
        let kakaos: Set = ["refused-by-kakao", "consent-required", "unauthorized", "invalid-field"]
        let usual: Set = ["bad-request", "invalid-json", "internal-server-error"]
        #expect(problems.subtracting(kakaos).subtracting(usual).subtracting(named) == [])
    }
}

extension KakaoCall {
    fileprivate static var paths: [String] { operation.paths }
}
