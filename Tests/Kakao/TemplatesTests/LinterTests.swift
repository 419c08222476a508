import JSON
import Testing

@testable import Templates

@Suite struct LinterTests {
    private static let linter = TemplateLinter(domains: ["example.com", "www.example.com", "shop.example.com:8443"])

    /// The findings in the form `path rule effect`.
    private static func findings(_ json: String) -> [String] {
        linter.findings(in: json).map { "\($0.path) \($0.rule) \($0.effect)" }
    }

    // MARK: Properties

    @Test("A template within all limits has no finding", arguments: Template.Kind.allCases)
    func withinLimits(kind: Template.Kind) {
        var random = RandomTemplates(seed: 7)
        for _ in 0..<500 {
            let template = random.template(kind)
            let findings = Self.linter.findings(in: template.json)
            #expect(findings.isEmpty, "\(template.json)")
        }
    }

    /// A change that exceeds one limit, and the finding that it causes.
    struct Fault: Sendable, CustomTestStringConvertible {
        let kind: Template.Kind
        /// The path of the change: names and indices.
        let path: [Step]
        let value: JSONValue?
        let finding: String
        var testDescription: String { finding }

        enum Step: Sendable {
            case name(String)
            case index(Int)
        }

        init(_ kind: Template.Kind, _ path: String, _ value: JSONValue?, _ finding: String) {
            self.kind = kind
            self.path = path.split(separator: ".").map { Int($0).map { .index($0) } ?? .name(String($0)) }
            self.value = value
            self.finding = finding
        }

        func apply(to value: JSONValue) -> JSONValue { Self.replace(path[...], in: value, self.value) }

        private static func replace(_ path: ArraySlice<Step>, in value: JSONValue, _ new: JSONValue?) -> JSONValue {
            guard let step = path.first else { return new ?? .null }
            let rest = path.dropFirst()
            switch step {
            case .name(let name):
                var members = JSONObject()
                var isDone = false
                for member in value.object?.members ?? [] {
                    if member.name == name {
                        isDone = true
                        if rest.isEmpty, new == nil { continue }
                        _ = members.append(name, replace(rest, in: member.value, new))
                    } else {
                        _ = members.append(member.name, member.value)
                    }
                }
                if !isDone, new != nil { _ = members.append(name, replace(rest, in: .object(JSONObject()), new)) }
                return .object(members)
            case .index(let index):
                var elements = value.array ?? []
                if index < elements.count { elements[index] = replace(rest, in: elements[index], new) }
                return .array(elements)
            }
        }
    }

    private static let link: JSONValue = ["web_url": "https://example.com"]
    private static let button: JSONValue = ["title": "Open", "link": link]

    private static func letters(_ count: Int) -> JSONValue { .string(String(repeating: "가", count: count)) }

    private static func copies(_ count: Int, of value: JSONValue) -> JSONValue {
        .array(Array(repeating: value, count: count))
    }

    static let faults: [Fault] = [
        Fault(.text, "text", letters(201), "$.text text-too-long truncated"),
        Fault(.text, "link", nil, "$ missing-member rejected"),
        Fault(.text, "text", nil, "$ missing-member rejected"),
        Fault(.text, "link", "https://example.com", "$.link wrong-type rejected"),
        Fault(.text, "text", 5, "$.text wrong-type uncertain"),
        Fault(.text, "text", "", "$.text empty-text uncertain"),
        Fault(.text, "link", [:], "$.link empty-link uncertain"),
        Fault(.text, "button_title", letters(15), "$.button_title text-too-long truncated"),
        Fault(.text, "buttons", copies(3, of: button), "$.buttons too-many uncertain"),
        Fault(.text, "buttons", [["title": "Open"]], "$.buttons[0] missing-member rejected"),
        Fault(.text, "buttons", button, "$.buttons wrong-type rejected"),
        Fault(.text, "buttons", ["Open"], "$.buttons[0] wrong-type rejected"),
        Fault(.text, "buttonTitle", "Open", "$.buttonTitle camel-case uncertain"),
        Fault(.text, "color", "red", "$.color unknown-member uncertain"),
        Fault(.text, "a b", "red", "$[\"a b\"] unknown-member uncertain"),
        Fault(.text, "link", ["web_url": nil], "$.link empty-link uncertain"),
        Fault(.text, "link", ["web_url": "https://127.1/"], "$.link.web_url invalid-url dropped"),
        Fault(.text, "link", ["web_url": "https://localhost./"], "$.link.web_url local-url dropped"),
        Fault(.text, "link", ["web_url": "https://example.com:+80/"], "$.link.web_url invalid-url dropped"),
        Fault(.feed, "item_content", ["sum": "A"], "$.item_content incomplete-item dropped"),
        Fault(.text, "link", ["web_url": "http://localhost:3000"], "$.link.web_url local-url dropped"),
        Fault(.text, "link", ["web_url": "https://192.168.0.7/"], "$.link.web_url local-url dropped"),
        Fault(.text, "link", ["web_url": "example.com"], "$.link.web_url invalid-url dropped"),
        Fault(
            .text,
            "link",
            ["mobile_web_url": "https://m.example.com"],
            "$.link.mobile_web_url unregistered-domain dropped"
        ),
        Fault(.text, "link", ["web_url": "https://example.com.evil.net"], "$.link.web_url unregistered-domain dropped"),
        Fault(.text, "link", ["ios_execution_params": ["id": 1]], "$.link.ios_execution_params wrong-type rejected"),
        Fault(
            .text,
            "link",
            ["android_execution_params": "?id"],
            "$.link.android_execution_params execution-params uncertain"
        ),
        Fault(.list, "header_title", letters(201), "$.header_title text-too-long truncated"),
        Fault(.list, "contents", copies(1, of: ["title": "A", "link": link]), "$.contents too-few rejected"),
        Fault(.list, "contents", copies(4, of: ["title": "A", "link": link]), "$.contents too-many uncertain"),
        Fault(.list, "contents.0.link", nil, "$.contents[0] missing-member rejected"),
        Fault(.list, "header_link", nil, "$ missing-member rejected"),
        Fault(.feed, "content", ["link": link], "$.content empty-content uncertain"),
        Fault(.feed, "content.image_url", "http://example.com/a.png", "$.content.image_url insecure-image uncertain"),
        Fault(.feed, "content.image_url", "image:cake", "$.content.image_url invalid-url uncertain"),
        Fault(.feed, "content.image_url", "image:", "$.content.image_url invalid-url uncertain"),
        Fault(
            .feed,
            "content.image_url",
            "image:01926f3e7a5b-7c3d-9e1f-0a2b3c4d5e6f-",
            "$.content.image_url invalid-url uncertain"
        ),
        Fault(.feed, "content.image_width", 199, "$.content.image_width small-image uncertain"),
        Fault(.feed, "content.image_height", 0, "$.content.image_height out-of-range uncertain"),
        Fault(.feed, "social", ["like_count": -1], "$.social.like_count out-of-range uncertain"),
        Fault(
            .feed,
            "social",
            ["like_count": 1, "comment_count": 1, "shared_count": 1, "view_count": 1],
            "$.social too-many truncated"
        ),
        Fault(
            .feed,
            "item_content",
            ["profile_text": letters(17)],
            "$.item_content.profile_text text-too-long truncated"
        ),
        Fault(
            .feed,
            "item_content",
            ["title_image_text": letters(25)],
            "$.item_content.title_image_text text-too-long truncated"
        ),
        Fault(
            .feed,
            "item_content",
            ["title_image_category": letters(15)],
            "$.item_content.title_image_category text-too-long truncated"
        ),
        Fault(.feed, "item_content", ["sum": letters(7), "sum_op": "1"], "$.item_content.sum text-too-long truncated"),
        Fault(
            .feed,
            "item_content",
            ["sum": "A", "sum_op": letters(12)],
            "$.item_content.sum_op text-too-long truncated"
        ),
        Fault(
            .feed,
            "item_content",
            ["sum": "A", "sum_op": "1.999"],
            "$.item_content.sum_op unusual-characters uncertain"
        ),
        Fault(
            .feed,
            "item_content",
            ["items": [["item": letters(7), "item_op": "1"]]],
            "$.item_content.items[0].item text-too-long truncated"
        ),
        Fault(
            .feed,
            "item_content",
            ["items": [["item": "A", "item_op": letters(26)]]],
            "$.item_content.items[0].item_op text-too-long truncated"
        ),
        Fault(.feed, "item_content", ["items": [["item": "A"]]], "$.item_content.items[0] incomplete-item dropped"),
        Fault(
            .feed,
            "item_content",
            ["items": copies(6, of: ["item": "A", "item_op": "1"])],
            "$.item_content.items too-many uncertain"
        ),
        Fault(.location, "address", nil, "$ missing-member rejected"),
        Fault(.location, "buttons", copies(2, of: button), "$.buttons too-many uncertain"),
        Fault(.commerce, "commerce", ["discount_price": 1], "$.commerce missing-member rejected"),
        Fault(
            .commerce,
            "commerce",
            ["regular_price": 2, "discount_price": 1, "discount_rate": 101],
            "$.commerce.discount_rate out-of-range uncertain"
        ),
        Fault(
            .commerce,
            "commerce",
            ["regular_price": 2, "discount_rate": 1],
            "$.commerce discount-without-price uncertain"
        ),
        Fault(
            .commerce,
            "commerce",
            ["regular_price": 2, "discount_price": 1, "discount_rate": 1, "fixed_discount_price": 1],
            "$.commerce two-discounts uncertain"
        ),
        Fault(
            .commerce,
            "commerce",
            ["regular_price": 2, "currency_unit_position": 2],
            "$.commerce.currency_unit_position out-of-range uncertain"
        ),
        Fault(.commerce, "commerce", ["regular_price": "2"], "$.commerce.regular_price wrong-type uncertain"),
        Fault(.calendar, "id_type", "day", "$.id_type unknown-value uncertain"),
        Fault(.calendar, "id", nil, "$ missing-member rejected"),
        Fault(.calendar, "buttons", copies(2, of: button), "$.buttons too-many uncertain"),
        Fault(.feed, "object_type", "poster", "$.object_type unknown-object-type rejected"),
        Fault(.feed, "object_type", nil, "$ missing-member rejected"),
    ]

    @Test("One part beyond one limit yields exactly that finding", arguments: faults)
    func beyond(fault: Fault) throws {
        var random = RandomTemplates(seed: 11)
        for _ in 0..<50 {
            let template = try JSONValue(parsing: random.template(fault.kind).json)
            #expect(Self.findings(fault.apply(to: template).description) == [fault.finding])
        }
    }

    @Test("Every rule has a template that breaks it")
    func coverage() {
        let tested = Self.faults.compactMap { $0.finding.split(separator: " ").dropLast().last.map(String.init) }
        #expect(
            Set(tested).union(["syntax", "duplicate-member", "not-checked", "message-size", "callback-size"])
                == Set(Finding.Rule.allCases.map(\.rawValue))
        )
    }

    // MARK: Texts

    @Test(
        "A text that is not JSON is reported with line and column",
        arguments: [
            ("{\"object_type\": \"text\",\n  \"text\": \"가나\",\n}", "line 3, column 1", "remove the comma before }"),
            ("{\"object_type\": \"feed\" \"content\": {}}", "line 1, column 24", "expected"),
            ("{'object_type': 'text'}", "line 1, column 2", "double quotes"),
            ("[\n 1,\n]", "line 3, column 1", "remove the comma before ]"),
            ("", "line 1, column 1", "empty"),
            ("{\"text\": \"가나다", "line 1, column 14", ""),
        ]
    )
    func syntax(text: String, place: String, words: String) throws {
        let findings = Self.linter.findings(in: text)
        let finding = try #require(findings.first)
        #expect(findings.count == 1)
        #expect(finding.rule == "syntax" && finding.effect == .rejected && finding.value == place)
        #expect(finding.message.contains(words), "\(finding.message)")
    }

    @Test("Of a member that is given twice, the linter does not know which one Kakao takes")
    func duplicates() {
        let text = "{\"object_type\": \"text\", \"text\": \"a\", \"text\": \"b\"}"
        #expect(Self.findings(text) == ["$ duplicate-member uncertain"])
    }

    @Test("The request's parameter in place of the template gets a hint")
    func wrapped() {
        let findings = Self.linter.findings(in: "{\"template_object\": {\"object_type\": \"text\"}}")
        #expect(findings.first?.message.contains("without template_object") == true)
    }

    @Test("Without registered domains, links are not compared with them; http links are allowed")
    func withoutDomains() {
        let text = #"{"object_type":"text","text":"Hi","link":{"web_url":"http://anything.example:8080/a"}}"#
        #expect(TemplateLinter().findings(in: text).isEmpty)
    }

    @Test("image:ID stands for an image that the server keeps")
    func keptImage() {
        let text = """
            {"object_type":"feed","content":{"title":"A","image_url":"image:01926f3e-7A5b-7c3d-9e1f-0a2b3c4d5e6f","link":{}}}
            """
        #expect(!Self.linter.findings(in: text).contains { $0.path.contains("image_url") })
    }

    @Test("Hostile input yields bounded findings and never crashes", arguments: 0..<200)
    func hostile(seed: Int) {
        var random = RandomTemplates(seed: UInt64(seed))
        var bytes = Array(random.template(Template.Kind.allCases[seed % 6]).json.utf8)
        for _ in 0..<Int.random(in: 1...8, using: &random) {
            let index = Int.random(in: 0..<bytes.count, using: &random)
            switch Int.random(in: 0...2, using: &random) {
            case 0: bytes[index] = UInt8.random(in: .min ... .max, using: &random)
            case 1: bytes.remove(at: index)
            default: bytes.insert(contentsOf: bytes[index...].prefix(20), at: index)
            }
        }
        let findings = Self.linter.findings(in: bytes)
        #expect(findings.count <= 2 * TemplateLinter.maximumFindings)
        #expect(findings.allSatisfy { $0.path.hasPrefix("$") && !$0.message.isEmpty && $0.message.utf8.count < 1000 })
    }

    @Test("A template with many faults yields a bounded number of findings, each short")
    func flood() {
        let members = (0..<1000).map { "\"x\($0)\":1" }.joined(separator: ",")
        let text = "{\"object_type\":\"text\",\"text\":\"a\",\"link\":{},\(members)}"
        let findings = Self.linter.findings(in: text)
        #expect(findings.count == TemplateLinter.maximumFindings + 1)
        #expect(findings.last?.endsCheck == true)
        // Rejections have room of their own; then the inspection ends.
        let wrong = [String](repeating: "0", count: 2000).joined(separator: ",")
        let few = (0..<250).map { "\"y\($0)\":1" }.joined(separator: ",")
        let rejected = Self.linter.findings(
            in: "{\"object_type\":\"text\",\"text\":\"a\",\(few),\"buttons\":[\(wrong)],\"link\":[]}"
        )
        #expect(rejected.count == 2 * TemplateLinter.maximumFindings + 1)
        #expect(rejected.count { $0.effect == .rejected } == TemplateLinter.maximumFindings)
        #expect(rejected.last?.endsCheck == true)
        let deep = String(repeating: "[", count: 100_000)
        #expect(Self.findings(deep) == ["$ not-checked uncertain"])
    }
}
