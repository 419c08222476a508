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

    /// Whether no further finding is kept, so that the inspection can end.
    private var isFull: Bool { hasOmitted && findings.count >= 2 * TemplateLinter.maximumFindings }

    /// The findings, with a last one if some are left out.
    var result: [Finding] {
        guard hasOmitted else { return findings }
        let message = "Further findings are left out. Correct these first."
        return findings + [Finding("$", .notChecked, .uncertain, limit: TemplateLinter.maximumFindings, message)]
    }

    /// Adds a finding, unless there are too many. Its texts are only made if it is kept.
    mutating func report(
        _ place: Place,
        _ rule: Finding.Rule,
        _ effect: Finding.Effect,
        limit exceeded: Int? = nil,
        value: @autoclosure () -> String? = nil,
        _ message: @autoclosure () -> String
    ) {
        // Rejections have room of their own, so that warnings cannot displace the one that decides the result.
        let limit = TemplateLinter.maximumFindings
        guard findings.count < limit || effect == .rejected && findings.count < 2 * limit else {
            hasOmitted = true
            return
        }
        let short = value().map { Self.shortened($0, with: "…") }
        findings.append(Finding(place.path, rule, effect, limit: exceeded, value: short, message()))
    }

    // MARK: Shapes

    mutating func inspectTemplate(_ value: JSONValue) {
        guard let object = value.object else {
            return wrongType(.root, value, "an object")
        }
        let kinds = Template.Kind.allCases.map(\.rawValue).joined(separator: ", ")
        guard let type = object["object_type"], !type.isNull else {
            let hint =
                object["template_object"] == nil ? "" : " Pass the template itself, without template_object around it."
            return report(
                .root,
                .missingMember,
                .rejected,
                "object_type is missing. It is one of \(kinds).\(hint)"
            )
        }
        guard let kind = type.string.flatMap(Template.Kind.init), let rules = ObjectRules.templates[kind] else {
            return report(
                .root["object_type"],
                .unknownObjectType,
                .rejected,
                value: type.string ?? type.description,
                "object_type must be one of \(kinds)."
            )
        }
        inspect(object, rules, .root)
    }

    private mutating func inspect(_ object: JSONObject, _ rules: ObjectRules, _ place: Place) {
        for (name, value) in object.members {
            guard !isFull else { return }
            guard let member = rules.values[name] else {
                unknown(name, place[name], rules)
                continue
            }
            // An absent member.
            guard !value.isNull else { continue }
            inspect(value, member, place[name])
        }
        for member in rules.members where member.isRequired && object[member.name].isAbsent {
            report(
                place,
                .missingMember,
                .rejected,
                value: member.name,
                "\(member.name) is missing. Kakao requires it in \(rules.name)."
            )
        }
        rules.check(&self, object, place)
    }

    private mutating func unknown(_ name: String, _ place: Place, _ rules: ObjectRules) {
        if let right = rules.name(like: name) {
            report(
                place,
                .camelCase,
                .uncertain,
                value: name,
                "Kakao does not know \(Self.quoted(name)). The name is \(right)."
            )
        } else {
            report(
                place,
                .unknownMember,
                .uncertain,
                value: name,
                "Kakao does not know \(Self.quoted(name)) in \(rules.name). It has \(rules.names)."
            )
        }
    }

    private mutating func inspect(_ value: JSONValue, _ rules: ValueRules, _ place: Place) {
        switch rules {
        case .text(let shown): inspectText(value, shown, place)
        case .integer(let range): inspectInteger(value, range, place)
        case .choice(let choices):
            guard let text = text(value, place), !choices.contains(text) else { return }
            report(
                place,
                .unknownValue,
                .uncertain,
                value: text,
                "The value must be one of \(choices.joined(separator: ", "))."
            )
        case .imageURL: inspectImage(value, place)
        case .webURL: inspectLink(value, place)
        case .executionParams: inspectExecutionParams(value, place)
        case .object(let rules):
            guard let object = value.object else { return wrongType(place, value, "an object") }
            inspect(object, rules, place)
        case .array(let rules, let count, let tooFew, let tooMany):
            guard let array = value.array else { return wrongType(place, value, "an array") }
            inspectCount(array.count, count, tooFew, tooMany, place)
            for (index, element) in array.enumerated() where !isFull {
                guard let object = element.object else {
                    wrongType(place[index], element, "an object")
                    continue
                }
                inspect(object, rules, place[index])
            }
        }
    }

    private mutating func inspectCount(
        _ count: Int,
        _ allowed: ClosedRange<Int>,
        _ tooFew: Finding.Effect,
        _ tooMany: Finding.Effect,
        _ place: Place
    ) {
        if count < allowed.lowerBound {
            report(
                place,
                .tooFew,
                tooFew,
                limit: allowed.lowerBound,
                value: String(count),
                "There \(count == 1 ? "is 1 element" : "are \(count) elements"). Kakao requires at least \(allowed.lowerBound)."
            )
        }
        if count > allowed.upperBound {
            report(
                place,
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
    private mutating func wrongType(_ place: Place, _ value: JSONValue, _ expected: String, isScalar: Bool = false) {
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
            place,
            .wrongType,
            isScalar && !isStructured ? .uncertain : .rejected,
            value: given,
            "The value must be \(expected), and is \(given)."
        )
    }

    // MARK: Texts and numbers

    private mutating func text(_ value: JSONValue, _ place: Place) -> String? {
        guard let text = value.string else {
            wrongType(place, value, "a text", isScalar: true)
            return nil
        }
        return text
    }

    private mutating func inspectText(_ value: JSONValue, _ shown: Int?, _ place: Place) {
        guard let text = text(value, place) else { return }
        if text.isEmpty {
            report(place, .emptyText, .uncertain, "The text is empty. Leave the member out, or give it a text.")
        }
        // Kakao's documents do not say what a character is.
        let length = text.unicodeScalars.count
        guard let shown, length > shown else { return }
        report(
            place,
            .textTooLong,
            .truncated,
            limit: shown,
            value: String(length),
            "The text has \(length) characters, of which about \(shown) are shown."
        )
    }

    private mutating func inspectInteger(_ value: JSONValue, _ range: ClosedRange<Int64>, _ place: Place) {
        guard let number = value.integer else {
            return wrongType(place, value, "an integer", isScalar: true)
        }
        guard !range.contains(number) else { return }
        let isTooLow = number < range.lowerBound
        report(
            place,
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
    mutating func checkAmount(_ value: JSONValue?, _ place: Place) {
        guard let text = value?.string, let point = text.lastIndex(of: ".") else { return }
        let decimals = text[text.index(after: point)...].prefix { $0.isNumber }.count
        guard decimals > 2 else { return }
        report(
            place,
            .unusualCharacters,
            .uncertain,
            limit: 2,
            value: text,
            "The amount has \(decimals) decimals. Kakao documents at most two."
        )
    }

    // MARK: Addresses

    private mutating func inspectImage(_ value: JSONValue, _ place: Place) {
        guard let text = text(value, place) else { return }
        // It is replaced by an address at Kakao when the message is sent.
        if text.hasPrefix("image:") { return inspectImageReference(text, place) }
        guard let url = WebURL(text) else { return invalidURL(text, place, .uncertain) }
        if !url.isSecure {
            report(
                place,
                .insecureImage,
                .uncertain,
                value: text,
                "The image has an http address, which phones may refuse to load. Use https."
            )
        }
        if url.isLocal { localURL(text, place, .uncertain) }
    }

    /// Checks that a reference to an image has the form `image:ID`. Whether the server has the image is not known here.
    private mutating func inspectImageReference(_ text: String, _ place: Place) {
        let groups = text.dropFirst("image:".count).utf8.split(separator: 0x2D, omittingEmptySubsequences: false)
        let isID =
            groups.map(\.count) == [8, 4, 4, 4, 12]
            && groups.joined().allSatisfy { octet in
                (0x30...0x39).contains(octet) || (0x61...0x66).contains(octet | 0x20)
            }
        guard !isID else { return }
        report(
            place,
            .invalidURL,
            .uncertain,
            value: text,
            "An image is an https address, or image:ID with the id that POST /v1/images returned."
        )
    }

    /// - Parameter effect: Kakao's reaction to a link that it does not accept.
    mutating func inspectLink(_ value: JSONValue, _ place: Place, _ effect: Finding.Effect = .dropped) {
        guard let text = text(value, place) else { return }
        guard let url = WebURL(text) else { return invalidURL(text, place, effect) }
        guard !url.isLocal else { return localURL(text, place, effect) }
        guard !domains.isEmpty, !domains.contains(url) else { return }
        report(
            place,
            .unregisteredDomain,
            effect,
            value: url.hostAndPort,
            "\(url.hostAndPort) is not among the registered domains. Register it at Kakao, and add it to sharing.domains (or --domain)."
        )
    }

    private mutating func invalidURL(_ text: String, _ place: Place, _ effect: Finding.Effect) {
        report(
            place,
            .invalidURL,
            effect,
            value: text,
            "The address must begin with https:// or http:// and a host, without spaces."
        )
    }

    private mutating func localURL(_ text: String, _ place: Place, _ effect: Finding.Effect) {
        report(place, .localURL, effect, value: text, "The address exists on this machine or network only.")
    }

    private mutating func inspectExecutionParams(_ value: JSONValue, _ place: Place) {
        if let object = value.object {
            let example = object.members.prefix(2).map { "\($0.name)=…" }.joined(separator: "&")
            return report(
                place,
                .wrongType,
                .rejected,
                value: "an object",
                "Execution params are one text, not an object: \"\(example.isEmpty ? "key=value" : example)\"."
            )
        }
        guard let text = text(value, place), !text.isEmpty else { return }
        let pairs = text.split(separator: "&", omittingEmptySubsequences: false)
        guard pairs.contains(where: { !$0.contains("=") || $0.hasPrefix("=") }) || text.contains("?") else { return }
        report(
            place,
            .executionParams,
            .uncertain,
            value: text,
            "Execution params have the form key=value&key2=value2, without a question mark."
        )
    }

    // MARK: Texts

    /// Returns the beginning of a text, with `ending` if it is not all of it.
    static func shortened(_ text: String, with ending: String = "") -> String {
        let end = text.index(text.startIndex, offsetBy: maximumQuote, limitedBy: text.endIndex) ?? text.endIndex
        return end < text.endIndex ? text[..<end] + ending : text
    }

    static func quoted(_ name: String) -> String {
        JSONValue.string(shortened(name)).description
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
