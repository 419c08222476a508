import JSON

/// The inspection of one template, with the findings so far.
struct Inspection {
    /// The longest value that a finding quotes, in characters.
    private static let maximumQuote = 60

    private let domains: RegisteredDomains
    private var findings: [Finding] = []
    private var hasOmitted = false

    init(domains: RegisteredDomains) {
        self.domains = domains
    }

    /// The findings, with a last one if some are left out.
    var result: [Finding] {
        guard hasOmitted else { return findings }
        let message = "Further findings are left out. Correct these first."
        return findings + [Finding("$", .notChecked, .uncertain, limit: TemplateLinter.maximumFindings, message)]
    }

    mutating func report(
        _ path: String,
        _ rule: Finding.Rule,
        _ effect: Finding.Effect,
        limit exceeded: Int? = nil,
        value: String? = nil,
        _ message: String
    ) {
        // Rejections have room of their own, so that warnings cannot displace the one that decides the result.
        let limit = TemplateLinter.maximumFindings
        guard findings.count < limit || effect == .rejected && findings.count < 2 * limit else {
            hasOmitted = true
            return
        }
        let short = value.map { $0.count > Self.maximumQuote ? $0.prefix(Self.maximumQuote) + "…" : $0 }
        findings.append(Finding(path, rule, effect, limit: exceeded, value: short, message))
    }

    // MARK: Shapes

    mutating func inspectTemplate(_ value: JSONValue) {
        guard let object = value.object else {
            return wrongType("$", value, "an object")
        }
        let kinds = Template.Kind.allCases.map(\.rawValue).joined(separator: ", ")
        guard let type = object["object_type"], !type.isNull else {
            let hint =
                object["template_object"] == nil ? "" : " Pass the template itself, without template_object around it."
            return report(
                "$",
                .missingMember,
                .rejected,
                "object_type is missing. It is one of \(kinds).\(hint)"
            )
        }
        guard let kind = type.string.flatMap(Template.Kind.init), let rules = ObjectRules.templates[kind] else {
            return report(
                "$.object_type",
                .unknownObjectType,
                .rejected,
                value: type.string ?? type.description,
                "object_type must be one of \(kinds)."
            )
        }
        inspect(object, rules, "$")
    }

    private mutating func inspect(_ object: JSONObject, _ rules: ObjectRules, _ path: String) {
        let known = Dictionary(uniqueKeysWithValues: rules.members.map { ($0.name, $0) })
        for (name, value) in object.members {
            let place = Self.path(path, name)
            guard let member = known[name] else {
                unknown(name, place, rules, object)
                continue
            }
            // An absent member.
            guard !value.isNull else { continue }
            inspect(value, member.value, place)
        }
        for member in rules.members where member.isRequired && object[member.name].isAbsent {
            report(
                path,
                .missingMember,
                .rejected,
                value: member.name,
                "\(member.name) is missing. Kakao requires it in \(rules.name)."
            )
        }
        rules.check(&self, object, path)
    }

    private mutating func unknown(_ name: String, _ path: String, _ rules: ObjectRules, _ object: JSONObject) {
        let names = rules.members.map(\.name)
        let simplified = name.lowercased().filter { $0 != "_" }
        if let right = names.first(where: { $0.filter { $0 != "_" } == simplified }) {
            report(
                path,
                .camelCase,
                .uncertain,
                value: name,
                "Kakao does not know \(Self.quoted(name)). The name is \(right)."
            )
        } else {
            report(
                path,
                .unknownMember,
                .uncertain,
                value: name,
                "Kakao does not know \(Self.quoted(name)) in \(rules.name). It has \(names.joined(separator: ", "))."
            )
        }
    }

    private mutating func inspect(_ value: JSONValue, _ rules: ValueRules, _ path: String) {
        switch rules {
        case .text(let shown): inspectText(value, shown, path)
        case .integer(let range): inspectInteger(value, range, path)
        case .choice(let choices):
            guard let text = text(value, path), !choices.contains(text) else { return }
            report(
                path,
                .unknownValue,
                .uncertain,
                value: text,
                "The value must be one of \(choices.joined(separator: ", "))."
            )
        case .imageURL: inspectImage(value, path)
        case .webURL: inspectLink(value, path)
        case .executionParams: inspectExecutionParams(value, path)
        case .object(let rules):
            guard let object = value.object else { return wrongType(path, value, "an object") }
            inspect(object, rules, path)
        case .array(let rules, let count, let tooFew, let tooMany):
            guard let array = value.array else { return wrongType(path, value, "an array") }
            inspectCount(array.count, count, tooFew, tooMany, path)
            for (index, element) in array.enumerated() {
                let place = "\(path)[\(index)]"
                guard let object = element.object else {
                    wrongType(place, element, "an object")
                    continue
                }
                inspect(object, rules, place)
            }
        }
    }

    private mutating func inspectCount(
        _ count: Int,
        _ allowed: ClosedRange<Int>,
        _ tooFew: Finding.Effect,
        _ tooMany: Finding.Effect,
        _ path: String
    ) {
        if count < allowed.lowerBound {
            report(
                path,
                .tooFew,
                tooFew,
                limit: allowed.lowerBound,
                value: String(count),
                "There \(count == 1 ? "is 1 element" : "are \(count) elements"). Kakao requires at least \(allowed.lowerBound)."
            )
        }
        if count > allowed.upperBound {
            report(
                path,
                .tooMany,
                tooMany,
                limit: allowed.upperBound,
                value: String(count),
                "There are \(count) elements. Kakao allows \(allowed.upperBound)."
            )
        }
    }

    /// Reports a value of a wrong type. Kakao rejects a template of another shape; a text in place of a number or the
    /// reverse may pass.
    private mutating func wrongType(_ path: String, _ value: JSONValue, _ expected: String, isScalar: Bool = false) {
        let given =
            switch value {
            case .object: "an object"
            case .array: "an array"
            case .string: "a text"
            case .number: "a number"
            case .bool: "true or false"
            case .null: "null"
            }
        let isStructured = value.object != nil || value.array != nil
        report(
            path,
            .wrongType,
            isScalar && !isStructured ? .uncertain : .rejected,
            value: given,
            "The value must be \(expected), and is \(given)."
        )
    }

    // MARK: Texts and numbers

    private mutating func text(_ value: JSONValue, _ path: String) -> String? {
        guard let text = value.string else {
            wrongType(path, value, "a text", isScalar: true)
            return nil
        }
        return text
    }

    private mutating func inspectText(_ value: JSONValue, _ shown: Int?, _ path: String) {
        guard let text = text(value, path) else { return }
        if text.isEmpty {
            report(path, .emptyText, .uncertain, "The text is empty. Leave the member out, or give it a text.")
        }
        // Kakao's documents do not say what a character is.
        let length = text.unicodeScalars.count
        guard let shown, length > shown else { return }
        report(
            path,
            .textTooLong,
            .truncated,
            limit: shown,
            value: String(length),
            "The text has \(length) characters, of which about \(shown) are shown."
        )
    }

    private mutating func inspectInteger(_ value: JSONValue, _ range: ClosedRange<Int64>, _ path: String) {
        guard let number = value.integer else {
            return wrongType(path, value, "an integer", isScalar: true)
        }
        guard !range.contains(number) else { return }
        let isTooLow = number < range.lowerBound
        report(
            path,
            .outOfRange,
            .uncertain,
            limit: Int(clamping: isTooLow ? range.lowerBound : range.upperBound),
            value: String(number),
            isTooLow
                ? "The number must be \(range.lowerBound) or more." : "The number must be \(range.upperBound) or less."
        )
    }

    /// Checks an amount of an item content, which is meant for digits, a currency sign, commas, points and spaces, with
    /// at most two decimals.
    mutating func checkAmount(_ value: JSONValue?, _ path: String) {
        guard let text = value?.string, let point = text.lastIndex(of: ".") else { return }
        let decimals = text[text.index(after: point)...].prefix { $0.isNumber }.count
        guard decimals > 2 else { return }
        report(
            path,
            .unusualCharacters,
            .uncertain,
            limit: 2,
            value: text,
            "The amount has \(decimals) decimals. Kakao documents at most two."
        )
    }

    // MARK: Addresses

    private mutating func inspectImage(_ value: JSONValue, _ path: String) {
        guard let text = text(value, path) else { return }
        // It is replaced by an address at Kakao when the message is sent.
        if text.hasPrefix("image:") { return inspectImageReference(text, path) }
        guard let url = WebURL(text) else { return invalidURL(text, path, .uncertain) }
        if !url.isSecure {
            report(
                path,
                .insecureImage,
                .uncertain,
                value: text,
                "The image has an http address, which phones may refuse to load. Use https."
            )
        }
        if url.isLocal { localURL(text, path, .uncertain) }
    }

    /// Checks that a reference to an image has the form `image:ID`. Whether the server has the image is not known here.
    private mutating func inspectImageReference(_ text: String, _ path: String) {
        let groups = text.dropFirst("image:".count).utf8.split(separator: 0x2D, omittingEmptySubsequences: false)
        let isID =
            groups.map(\.count) == [8, 4, 4, 4, 12]
            && groups.joined().allSatisfy { octet in
                (0x30...0x39).contains(octet) || (0x61...0x66).contains(octet | 0x20)
            }
        guard !isID else { return }
        report(
            path,
            .invalidURL,
            .uncertain,
            value: text,
            "An image is an https address, or image:ID with the id that POST /v1/images returned."
        )
    }

    /// - Parameter effect: Kakao's reaction to a link that it does not accept.
    mutating func inspectLink(_ value: JSONValue, _ path: String, _ effect: Finding.Effect = .dropped) {
        guard let text = text(value, path) else { return }
        guard let url = WebURL(text) else { return invalidURL(text, path, effect) }
        guard !url.isLocal else { return localURL(text, path, effect) }
        guard !domains.isEmpty, !domains.contains(url) else { return }
        report(
            path,
            .unregisteredDomain,
            effect,
            value: url.hostAndPort,
            "\(url.hostAndPort) is not among the registered domains. Register it at Kakao, and add it to sharing.domains (or --domain)."
        )
    }

    private mutating func invalidURL(_ text: String, _ path: String, _ effect: Finding.Effect) {
        report(
            path,
            .invalidURL,
            effect,
            value: text,
            "The address must begin with https:// or http:// and a host, without spaces."
        )
    }

    private mutating func localURL(_ text: String, _ path: String, _ effect: Finding.Effect) {
        report(path, .localURL, effect, value: text, "The address exists on this machine or network only.")
    }

    private mutating func inspectExecutionParams(_ value: JSONValue, _ path: String) {
        if let object = value.object {
            let example = object.members.prefix(2).map { "\($0.name)=…" }.joined(separator: "&")
            return report(
                path,
                .wrongType,
                .rejected,
                value: "an object",
                "Execution params are one text, not an object: \"\(example.isEmpty ? "key=value" : example)\"."
            )
        }
        guard let text = text(value, path), !text.isEmpty else { return }
        let pairs = text.split(separator: "&", omittingEmptySubsequences: false)
        guard pairs.contains(where: { !$0.contains("=") || $0.hasPrefix("=") }) || text.contains("?") else { return }
        report(
            path,
            .executionParams,
            .uncertain,
            value: text,
            "Execution params have the form key=value&key2=value2, without a question mark."
        )
    }

    // MARK: Texts

    private static func path(_ parent: String, _ name: String) -> String {
        let isPlain =
            !name.isEmpty
            && name.utf8.allSatisfy { character in
                switch character {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
        // RFC 9535 §2.3.1
        return isPlain
            ? "\(parent).\(name.prefix(maximumQuote))"
            : "\(parent)[\(JSONValue.string(String(name.prefix(maximumQuote))).description)]"
    }

    private static func quoted(_ name: String) -> String {
        JSONValue.string(String(name.prefix(maximumQuote))).description
    }
}

extension JSONObject {
    /// Whether all of these members are missing, null or empty texts.
    func hasNothing(of names: [String]) -> Bool {
        names.allSatisfy { self[$0].isAbsent || self[$0]?.string?.isEmpty == true }
    }
}

extension JSONValue? {
    /// Whether a member is missing or null.
    var isAbsent: Bool { self?.isNull ?? true }
}
