import FoundationEssentials

/// A default template of a KakaoTalk message (Kakao, "Message template"): the content of a shared or sent message.
///
/// ```swift
/// let template = Template.feed(
///     FeedTemplate(
///         content: Content(
///             title: "Strawberry cheesecake",
///             imageURL: "https://example.com/cake.png",
///             link: Link("https://example.com/cakes/1")
///         ),
///         buttons: [Button("Order", Link("https://example.com/cakes/1/order"))]
///     )
/// )
/// let json = template.json
/// ```
///
/// ``TemplateLinter`` says what Kakao would reject, cut or drop.
public enum Template: Hashable, Sendable {
    case feed(FeedTemplate)
    case list(ListTemplate)
    case location(LocationTemplate)
    case commerce(CommerceTemplate)
    case text(TextTemplate)
    case calendar(CalendarTemplate)

    /// The type of a template: `object_type`.
    public enum Kind: String, CaseIterable, Codable, Sendable {
        case feed, list, location, commerce, text, calendar
    }

    /// The type of the template.
    public var kind: Kind {
        switch self {
        case .feed: .feed
        case .list: .list
        case .location: .location
        case .commerce: .commerce
        case .text: .text
        case .calendar: .calendar
        }
    }

    /// Reads a template in Kakao's spelling. Members that Kakao does not know are ignored.
    ///
    /// - Parameter json: The JSON text of `template_object`.
    /// - Throws: `DecodingError`. ``TemplateLinter`` explains everything that is wrong with a text.
    public init(json: String) throws {
        self = try JSONDecoder().decode(Template.self, from: Data(json.utf8))
    }

    /// The JSON text of `template_object`, in Kakao's spelling, with sorted members.
    public var json: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(self) else {
            preconditionFailure("templates consist of texts and integers")
        }
        return String(decoding: data, as: UTF8.self)
    }
}

extension Template: Codable {
    private enum CodingKeys: String, CodingKey {
        case kind = "object_type"
    }

    /// Reads a template in Kakao's spelling.
    public init(from decoder: any Decoder) throws {
        switch try decoder.container(keyedBy: CodingKeys.self).decode(Kind.self, forKey: .kind) {
        case .feed: self = .feed(try FeedTemplate(from: decoder))
        case .list: self = .list(try ListTemplate(from: decoder))
        case .location: self = .location(try LocationTemplate(from: decoder))
        case .commerce: self = .commerce(try CommerceTemplate(from: decoder))
        case .text: self = .text(try TextTemplate(from: decoder))
        case .calendar: self = .calendar(try CalendarTemplate(from: decoder))
        }
    }

    /// Writes a template in Kakao's spelling.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(kind, forKey: .kind)
        switch self {
        case .feed(let template): try template.encode(to: encoder)
        case .list(let template): try template.encode(to: encoder)
        case .location(let template): try template.encode(to: encoder)
        case .commerce(let template): try template.encode(to: encoder)
        case .text(let template): try template.encode(to: encoder)
        case .calendar(let template): try template.encode(to: encoder)
        }
    }
}
