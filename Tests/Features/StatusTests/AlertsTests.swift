import FoundationEssentials
import ServiceTesting
import TestSupport
import Testing

@testable import Server

/// Tests that the alert rules, their tests, the dashboard and the runbook agree with each other and with the server.
/// `scripts/alerts` tests what the rules compute.
@Suite(.timeLimit(.minutes(5))) struct AlertsTests {
    /// A rule of `alerts.yml`.
    private struct Rule: Hashable {
        let alert: String
        let severity: String
        let runbook: String
    }

    /// A metric with a condition on one of its labels, such as `state=~"halted|stopped"`.
    private struct Selector: Hashable {
        let metric: String
        let label: String
        let comparison: String
        let value: String

        func matches(_ labels: [String: String]) throws -> Bool {
            let own = labels[label] ?? ""
            switch comparison {
            case "=": return own == value
            case "!=": return own != value
            default: return try (own.wholeMatch(of: Regex(value)) != nil) == (comparison == "=~")
            }
        }
    }

    private static let rulesFile = "deploy/prometheus/alerts.yml"
    private static let dashboardFile = "deploy/grafana/push-server.json"

    private static func contents(_ file: String) throws -> String {
        try String(contentsOfFile: "\(TestFiles.repository)/\(file)", encoding: .utf8)
    }

    private static func rules() throws -> [Rule] {
        try contents(rulesFile).split(separator: "- alert: ").dropFirst().map { text in
            Rule(
                alert: String(text.prefix { !$0.isWhitespace }),
                severity: String(try #require(text.firstMatch(of: /\n +severity: (\w+)/)).1),
                runbook: String(try #require(text.firstMatch(of: /\n +runbook_url: (\S+)/)).1)
            )
        }
    }

    /// Returns the metrics that a file names. Series of a histogram count as their metric.
    private static func metrics(in file: String) throws -> Set<String> {
        // The colon is that of a recorded series.
        let names = try contents(file).matches(of: /(?:\w+:)?(?:kakao_push|push_server|process)_\w+/)
            .map { String($0.output) }.filter { !$0.contains(":") }
        return Set(
            names.map { name in
                let family = name.replacing(/_(bucket|sum|count)$/, with: "")
                return MetricsTests.all.contains(family) ? family : name
            }
        )
    }

    /// Returns the conditions on labels in a file, except those that Prometheus adds.
    private static func selectors(in file: String) throws -> Set<Selector> {
        let text = try contents(file).replacing(#"\""#, with: "\"")
        return try Set(
            text.matches(of: /((?:kakao_push|push_server|process)_\w+)\{([^}]*)\}/).flatMap { match in
                try match.2.split(separator: /,(?=\w+[=!])/).compactMap { condition in
                    let parts = try #require(condition.wholeMatch(of: /(\w+)(=~|!~|!=|=)"(.*)"/))
                    guard !["job", "instance"].contains(parts.1) else { return nil }
                    return Selector(
                        metric: String(match.1),
                        label: String(parts.1),
                        comparison: String(parts.2),
                        value: String(parts.3)
                    )
                }
            }
        )
    }

    /// The identifiers of a page's headings, as links name them.
    private static func anchors(of page: String) throws -> Set<String> {
        Set(
            try contents(page).matches(of: /\n#+ (.+)/).map { heading in
                heading.1.lowercased().filter { $0.isLetter || $0.isNumber || " -_".contains($0) }
                    .replacing(" ", with: "-")
            }
        )
    }

    @Test("Each metric of the rules and the dashboard exists, and each metric is on the dashboard")
    func metrics() throws {
        let ofRules = try Self.metrics(in: Self.rulesFile)
        #expect(ofRules.count > 20)
        #expect(ofRules.subtracting(MetricsTests.all) == [])
        #expect(try Self.metrics(in: Self.dashboardFile) == MetricsTests.all)
    }

    @Test("Each condition on a label matches a series of a server, and each negative one leaves something out")
    func selectors() async throws {
        let selectors = try Self.selectors(in: Self.rulesFile).union(Self.selectors(in: Self.dashboardFile))
        #expect(selectors.count > 20)
        let journal = "\(try TemporaryFolder.make())/journal"
        let adjust = { (settings: inout Settings) in settings.journal.directory = journal }
        try await withService(adjust) { service in
            _ = try await service.api.register(1, "token")
            let families = try await service.api.metrics().families
            #expect(MetricsTests.all.filter { $0.contains("_journal_") }.allSatisfy { families[$0] != nil })
            for selector in selectors {
                // Requests appear with the first one of their operation and status, and a certificate is optional.
                guard !selector.metric.contains("_http_"), selector.metric != "kakao_push_refused_total" else {
                    continue
                }
                let family = families[selector.metric.replacing(/_(bucket|sum|count)$/, with: "")]
                let matches = try (family?.samples ?? []).map { try selector.matches($0.labels) }
                #expect(matches.contains(true), "\(selector)")
                if selector.comparison.hasPrefix("!") { #expect(matches.contains(false), "\(selector)") }
            }
        }
    }

    @Test("The operations in conditions are operations of the server")
    func operations() throws {
        let selectors = try Self.selectors(in: Self.rulesFile).union(Self.selectors(in: Self.dashboardFile))
        let names = Set(try Self.contents("docs/openapi.json").matches(of: /"operationId": ?"(\w+)"/).map { $0.1 })
        #expect(names.count > 50)
        let ofOperations = selectors.filter { $0.label == "operation" }
        #expect(ofOperations.count >= 3)
        for selector in ofOperations {
            for alternative in selector.value.split(separator: /\|(?![^(]*\))/) {
                let expression = try Regex(String(alternative))
                #expect(names.contains { $0.wholeMatch(of: expression) != nil }, "\(alternative)")
            }
        }
    }

    @Test("Each alert has a section in the runbook, to which its rules lead, and each section has an alert")
    func runbook() throws {
        let rules = try Self.rules()
        #expect(Set(rules.map(\.severity)) == ["page", "ticket"])
        for rule in rules {
            #expect(rule.runbook == "docs/runbook.md#\(rule.alert.lowercased())", "\(rule.alert)")
        }
        let page = try Self.contents("docs/runbook.md")
        let alerts = try #require(page.firstRange(of: "\n## Servers\n"))
        let sections = page[alerts.lowerBound...].split(separator: "\n### ").dropFirst()
        #expect(sections.map { String($0.prefix { $0 != "\n" }) }.sorted() == Set(rules.map(\.alert)).sorted())
        for section in sections {
            for part in ["Meaning", "Impact", "Remedy", "Escalation"] {
                #expect(section.contains("\n**\(part).** "), "\(part) of \(section.prefix { $0 != "\n" })")
            }
        }
    }

    @Test("The table of the runbook has each alert, its severities, and a command of its section")
    func table() throws {
        let rules = try Self.rules()
        let page = try Self.contents("docs/runbook.md")
        let rows = page.matches(of: /\n\| \[(\w+)\]\(#\w+\) \| ([a-z, ]+) \| `([^`]+)` \|/)
        #expect(rows.map { String($0.1) }.sorted() == Set(rules.map(\.alert)).sorted())
        for row in rows {
            let severities = rules.filter { $0.alert == row.1 }.map(\.severity)
            #expect(row.2.split(separator: ", ").map(String.init).sorted() == severities.sorted(), "\(row.1)")
            let start = try #require(page.firstRange(of: "\n### \(row.1)\n"), "\(row.1)")
            let section = page[start.upperBound...].split(separator: "\n### ", maxSplits: 1).first
            #expect(section?.contains("\n\(row.3)") == true, "\(row.1): \(row.3)")
        }
    }

    @Test("The links of the runbook lead to headings")
    func links() throws {
        let links = try Self.contents("docs/runbook.md").matches(of: /\]\((\w+\.md)?#([\w-]+)\)/)
        #expect(links.count > 30)
        for link in links {
            let file = "docs/\(link.1 ?? "runbook.md")"
            #expect(try Self.anchors(of: file).contains(String(link.2)), "\(link.0)")
        }
    }

    @Test("Each alert is expected by a test of the rules, with each of its severities")
    func ruleTests() throws {
        let tests = try ["alerts_test.yml", "slow_alerts_test.yml"].map { try Self.contents("deploy/prometheus/\($0)") }
        for rule in try Self.rules() {
            let labels = "{alertname=\"\(rule.alert)\",severity=\"\(rule.severity)\"}"
            #expect(tests.contains { $0.contains(labels) }, "\(labels)")
        }
    }
}
