import FoundationEssentials
import ServiceTesting
import TestSupport
import Testing

@Suite struct ContributingTests {
    @Test("The Swift examples of docs/contributing.md are code of this repository")
    func examples() throws {
        let page = try String(contentsOfFile: "\(TestFiles.repository)/docs/contributing.md", encoding: .utf8)
        let examples = page.split(separator: "```").filter { $0.hasPrefix("swift\n") }.map {
            Self.normalized($0.dropFirst(6))
        }
        #expect(examples.count == 9)
        let files = try ["Sources", "Tests"].flatMap { try TestFiles.swiftFiles(in: $0) }
        let code = files.map { Self.normalized($0[...]) }.joined()
        for example in examples { #expect(code.contains(example)) }
        let function = "\(TestFiles.migrations)/functions/limit_returned_device.sql"
        #expect(page.contains("```sql\n\(try String(contentsOfFile: function, encoding: .utf8))```"))
    }

    /// The lines of a text without their indentation.
    private static func normalized(_ text: Substring) -> String {
        text.split(separator: "\n").map { $0.drop { $0 == " " } + "\n" }.joined()
    }
}
