import Endpoints
package import HTTPClient
package import HTTPTypes
package import JSON
import KakaoAPI
import Schemas
import Server
import Testing

/// The contract of the HTTP API: each response that a test receives must be one that the OpenAPI document declares.
package enum Contract {
    /// The statuses of requests that are invalid as HTTP, and of methods and paths that do not exist.
    private static let undeclared: Set<Int> = [400, 404, 405, 408, 413, 414, 417, 431, 501, 503, 505]
    /// The size of a body above which its members are not checked, in bytes.
    private static let maximumBody = 1 << 20

    private static let document = OpenAPIDocument.service.json
    private static let validator = SchemaValidator(document: document)
    /// The paths of the document, split at their slashes. Literal paths take precedence and come first.
    private static let paths = (document["paths"]?.object?.members ?? [])
        .map { (segments: $0.name.split(separator: "/", omittingEmptySubsequences: false), operations: $0.value) }
        .sorted { !$0.segments.contains { $0.hasPrefix("{") } && $1.segments.contains { $0.hasPrefix("{") } }

    /// The paths of Kakao's calls whose answers may be empty.
    private static let pathsWithEmptyAnswers = Set(KakaoCalls.all.flatMap { $0.pathsWithEmptyAnswers })

    /// Records an issue for each difference between a response and the document.
    package static func check(_ response: HTTPClientResponse, to method: HTTPRequest.Method, _ target: String) {
        let path = target.prefix { $0 != "?" }
        for violation in violations(response, to: method, String(path)) {
            Issue.record("\(method) \(path), \(response.status): \(violation). \(response.text.prefix(500))")
        }
    }

    private static func violations(
        _ response: HTTPClientResponse,
        to method: HTTPRequest.Method,
        _ path: String
    ) -> [String] {
        let type = response.headerFields[.contentType].map { String($0.prefix { $0 != ";" }) }
        guard let operation = operation(method, path) else {
            guard undeclared.contains(response.status) || method == .options else { return ["no such operation"] }
            return []
        }
        let responses = operation["responses"]
        let declared = responses?[String(response.status)] ?? (response.status / 100 == 4 ? responses?["4XX"] : nil)
        guard let declared = declared.map(resolved) else {
            return undeclared.contains(response.status) && type == "application/problem+json"
                ? [] : ["undeclared status"]
        }
        guard method != .head else { return [] }
        guard let content = declared["content"] else { return response.body.isEmpty ? [] : ["undeclared body"] }
        // OpenAPI has no form for it.
        if response.body.isEmpty, response.status == 200, pathsWithEmptyAnswers.contains(path) { return [] }
        guard let type, let media = content[type] else {
            // An operation may declare both a body and none.
            return response.body.isEmpty && content["application/problem+json"] == nil
                ? [] : ["undeclared Content-Type"]
        }
        guard type.hasSuffix("/json") || type.hasSuffix("+json"), response.body.count <= maximumBody else { return [] }
        guard let json = response.json else { return ["invalid JSON"] }
        var violations = validator.violations(of: json, media["schema"] ?? [:], at: "")
        if type == "application/problem+json", let name = json["type"]?.string?.split(separator: ":").last,
            declared["description"]?.string?.contains("`\(name)`") != true, name != "bad-request"
        {
            violations.append("undeclared problem \(name)")
        }
        return violations
    }

    /// Returns the component that a response refers to, or the response itself.
    private static func resolved(_ response: JSONValue) -> JSONValue {
        guard let name = response["$ref"]?.string?.split(separator: "/").last else { return response }
        return document["components"]?["responses"]?[String(name)] ?? [:]
    }

    private static func operation(_ method: HTTPRequest.Method, _ path: String) -> JSONValue? {
        let segments = path.split(separator: "/", omittingEmptySubsequences: false)
        let name = (method == .head ? .get : method).rawValue.lowercased()
        let path = paths.first { path in
            path.segments.count == segments.count
                && zip(path.segments, segments).allSatisfy { $0 == $1 || $0.hasPrefix("{") && !$1.isEmpty }
        }
        return path?.operations[name]
    }
}

extension KakaoCall {
    fileprivate static var pathsWithEmptyAnswers: [String] { operation.answer.admitsEmpty ? operation.paths : [] }
}

/// A validator of JSON for the part of JSON Schema that the OpenAPI document uses.
package struct SchemaValidator {
    package let document: JSONValue

    /// Returns what is wrong with a value, each with its path in the value.
    package func violations(of value: JSONValue, _ schema: JSONValue, at path: String) -> [String] {
        var found: [String] = []
        for (keyword, rule) in schema.object?.members ?? [] {
            switch keyword {
            case "$ref":
                let name = rule.string?.split(separator: "/").last.map(String.init) ?? ""
                let schema = document["components"]?["schemas"]?[name]
                found += schema.map { violations(of: value, $0, at: path) } ?? ["\(path): unknown schema \(name)"]
            case "type":
                let types = rule.string.map { [$0] } ?? rule.array?.compactMap(\.string) ?? []
                if !types.contains(where: { Self.isA(value, $0) }) { found.append("\(path) is not \(rule)") }
            case "const": if value != rule { found.append("\(path) is not \(rule)") }
            case "enum":
                if rule.array?.contains(value) != true { found.append("\(path) is not one of \(rule)") }
            case "oneOf", "anyOf":
                let matches = rule.array?.count { violations(of: value, $0, at: path).isEmpty } ?? 0
                if matches == 0 || keyword == "oneOf" && matches > 1 {
                    found.append("\(path) matches \(matches) of \(keyword)")
                }
            case "minimum":
                if let number = value.integer, number < rule.integer ?? 0 { found.append("\(path) is too small") }
            case "maximum":
                if let number = value.integer, number > rule.integer ?? 0 { found.append("\(path) is too large") }
            case "pattern":
                if let text = value.string, let pattern = try? Regex(rule.string ?? ""),
                    text.firstMatch(of: pattern) == nil
                {
                    found.append("\(path) does not match \(rule)")
                }
            case "items":
                for (index, element) in (value.array ?? []).enumerated() {
                    found += violations(of: element, rule, at: "\(path)[\(index)]")
                }
            case "properties":
                for (name, member) in value.object?.members ?? [] {
                    if let schema = rule[name] { found += violations(of: member, schema, at: "\(path).\(name)") }
                }
            case "required":
                for name in rule.array?.compactMap(\.string) ?? [] where value.object != nil && value[name] == nil {
                    found.append("\(path) has no \(name)")
                }
            case "additionalProperties" where rule == false && schema["patternProperties"] == nil:
                for (name, _) in value.object?.members ?? [] where schema["properties"]?[name] == nil {
                    found.append("\(path) has an undeclared member \(name)")
                }
            default: break
            }
        }
        return found
    }

    private static func isA(_ value: JSONValue, _ type: String) -> Bool {
        switch (type, value) {
        case ("null", .null), ("boolean", .bool), ("number", .number), ("string", .string), ("array", .array),
            ("object", .object):
            true
        case ("integer", let value): value.integer != nil
        default: false
        }
    }
}
