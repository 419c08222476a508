import JSON

/// The members that an object of a template may have, and what is checked in each. The facts are those of Kakao's
/// "Message template" documents and SDKs.
struct ObjectRules: Sendable {
    struct Member: Sendable {
        let name: String
        let isRequired: Bool
        let value: ValueRules
    }

    /// The name of the object in messages: "a link".
    let name: String
    let members: [Member]
    /// The rules of the members by their names.
    let values: [String: ValueRules]
    /// The names of the members for messages: "title, link".
    let names: String
    /// The names of the members by ``simplified(_:)``.
    private let similar: [String: String]
    /// Checks of members that depend on each other.
    let check: @Sendable (inout Inspection, JSONObject, Place) -> Void

    init(
        _ name: String,
        _ members: [Member],
        check: @escaping @Sendable (inout Inspection, JSONObject, Place) -> Void = { _, _, _ in }
    ) {
        self.name = name
        self.members = members
        values = Dictionary(uniqueKeysWithValues: members.map { ($0.name, $0.value) })
        names = members.map(\.name).joined(separator: ", ")
        similar = Dictionary(uniqueKeysWithValues: members.map { (Self.simplified($0.name), $0.name) })
        self.check = check
    }

    /// Returns the name that differs from a wrong one in capitals and underscores only; `nil` if there is none.
    func name(like wrong: String) -> String? {
        // Longer ones are not meant to be one of these, and are not worth the time.
        guard wrong.utf8.count <= Self.maximumName else { return nil }
        return similar[Self.simplified(wrong)]
    }

    /// The longest name that is compared with others, in bytes.
    private static let maximumName = 64

    private static func simplified(_ name: String) -> String {
        name.lowercased().filter { $0 != "_" }
    }
}

extension ObjectRules.Member {
    static func required(_ name: String, _ value: ValueRules) -> Self {
        Self(name: name, isRequired: true, value: value)
    }

    static func optional(_ name: String, _ value: ValueRules) -> Self {
        Self(name: name, isRequired: false, value: value)
    }
}

/// What is checked in a value.
indirect enum ValueRules: Sendable {
    /// A text, of which at most so many characters are shown.
    case text(shown: Int?)
    /// An integer.
    case integer(ClosedRange<Int64>)
    /// One of these texts.
    case choice([String])
    case imageURL
    case webURL
    case executionParams
    case object(ObjectRules)
    case array(of: ObjectRules, count: ClosedRange<Int>, tooFew: Finding.Effect, tooMany: Finding.Effect)

    static let text = ValueRules.text(shown: nil)
    /// The number of somebody or something.
    static let count = ValueRules.integer(0...Int64.max)

    static func buttons(_ maximum: Int) -> ValueRules {
        .array(of: .button, count: 0...maximum, tooFew: .uncertain, tooMany: .uncertain)
    }
}

extension ObjectRules {
    static let link = ObjectRules(
        "a link",
        [
            .optional("web_url", .webURL), .optional("mobile_web_url", .webURL),
            .optional("android_execution_params", .executionParams),
            .optional("ios_execution_params", .executionParams),
        ]
    ) { inspection, object, place in
        let names = ["web_url", "mobile_web_url", "android_execution_params", "ios_execution_params"]
        guard object.hasNothing(of: names) else { return }
        inspection.report(place, .emptyLink, .uncertain, "The link opens nothing. Give at least one address.")
    }

    static let button = ObjectRules(
        "a button",
        [.required("title", .text(shown: Limits.buttonTitle)), .required("link", .object(link))]
    )

    static let content = ObjectRules(
        "a content",
        [
            .optional("title", .text), .optional("description", .text), .optional("image_url", .imageURL),
            .optional("image_width", .integer(1...Int64.max)), .optional("image_height", .integer(1...Int64.max)),
            .required("link", .object(link)),
        ]
    ) { inspection, object, place in
        if object.hasNothing(of: ["title", "description", "image_url"]) {
            inspection.report(
                place,
                .emptyContent,
                .uncertain,
                "Nothing of the content is visible. Give it a title, a description or an image_url."
            )
        }
        for name in ["image_width", "image_height"] {
            guard let pixels = object[name]?.integer, (1..<200).contains(pixels) else { continue }
            inspection.report(
                place[name],
                .smallImage,
                .uncertain,
                limit: 200,
                value: String(pixels),
                "The image has \(pixels) pixels in this direction. Kakao asks for at least 200."
            )
        }
    }

    /// In the order in which they are shown.
    private static let counts = ["like_count", "comment_count", "shared_count", "view_count", "subscriber_count"]

    static let social = ObjectRules("the counts", counts.map { .optional($0, .count) }) { inspection, object, place in
        let given = counts.filter { !object[$0].isAbsent }
        guard given.count > Limits.counts else { return }
        inspection.report(
            place,
            .tooMany,
            .truncated,
            limit: Limits.counts,
            value: String(given.count),
            "Only three counts are shown: \(given.prefix(Limits.counts).joined(separator: ", "))."
        )
    }

    static let item = ObjectRules(
        "an item",
        [.optional("item", .text(shown: Limits.item)), .optional("item_op", .text(shown: Limits.itemOp))]
    ) { inspection, object, place in
        for name in ["item", "item_op"] where object[name].isAbsent {
            inspection.report(
                place,
                .incompleteItem,
                .dropped,
                "An item without \(name) is not shown. Give it both item and item_op."
            )
        }
        inspection.checkAmount(object["item_op"], place["item_op"])
    }

    static let itemContent = ObjectRules(
        "an item content",
        [
            .optional("profile_text", .text(shown: Limits.profileText)), .optional("profile_image_url", .imageURL),
            .optional("title_image_text", .text(shown: Limits.titleImageText)), .optional("title_image_url", .imageURL),
            .optional("title_image_category", .text(shown: Limits.titleImageCategory)),
            .optional("items", .array(of: item, count: 0...Limits.items, tooFew: .uncertain, tooMany: .uncertain)),
            .optional("sum", .text(shown: Limits.sum)), .optional("sum_op", .text(shown: Limits.sumOp)),
        ]
    ) { inspection, object, place in
        inspection.checkAmount(object["sum_op"], place["sum_op"])
        guard object["sum"].isAbsent != object["sum_op"].isAbsent else { return }
        inspection.report(place, .incompleteItem, .dropped, "A sum needs both sum and sum_op, or it is not shown.")
    }

    static let commerce = ObjectRules(
        "a commerce",
        [
            .required("regular_price", .count), .optional("discount_price", .count),
            .optional("discount_rate", .integer(0...100)), .optional("fixed_discount_price", .count),
            .optional("product_name", .text), .optional("currency_unit", .text),
            .optional("currency_unit_position", .integer(0...1)),
        ]
    ) { inspection, object, place in
        let (rate, fixed) = (object["discount_rate"], object["fixed_discount_price"])
        if !rate.isAbsent, !fixed.isAbsent {
            inspection.report(
                place,
                .twoDiscounts,
                .uncertain,
                "discount_rate and fixed_discount_price exclude each other. Give one of them."
            )
        }
        if !rate.isAbsent || !fixed.isAbsent, object["discount_price"].isAbsent {
            inspection.report(
                place,
                .discountWithoutPrice,
                .uncertain,
                "Without discount_price no discount is shown. Give the price after the discount."
            )
        }
    }

    /// The rules of each type of template.
    static let templates: [Template.Kind: ObjectRules] = [
        .feed: template(
            "a feed",
            [
                .required("content", .object(content)), .optional("item_content", .object(itemContent)),
                .optional("social", .object(social)), .optional("button_title", .text(shown: Limits.buttonTitle)),
                .optional("buttons", .buttons(Limits.buttons)),
            ]
        ),
        .list: template(
            "a list",
            [
                .required("header_title", .text(shown: Limits.headerTitle)), .required("header_link", .object(link)),
                .required(
                    "contents",
                    .array(of: content, count: 2...Limits.contents, tooFew: .rejected, tooMany: .uncertain)
                ),
                .optional("button_title", .text(shown: Limits.buttonTitle)),
                .optional("buttons", .buttons(Limits.buttons)),
            ]
        ),
        .location: template(
            "a location",
            [
                .required("address", .text), .optional("address_title", .text), .required("content", .object(content)),
                .optional("social", .object(social)), .optional("button_title", .text(shown: Limits.buttonTitle)),
                .optional("buttons", .buttons(Limits.buttonsBesideFixed)),
            ]
        ),
        .commerce: template(
            "a commerce template",
            [
                .required("content", .object(content)), .required("commerce", .object(commerce)),
                .optional("button_title", .text(shown: Limits.buttonTitle)),
                .optional("buttons", .buttons(Limits.buttons)),
            ]
        ),
        .text: template(
            "a text template",
            [
                .required("text", .text(shown: Limits.text)), .required("link", .object(link)),
                .optional("button_title", .text(shown: Limits.buttonTitle)),
                .optional("buttons", .buttons(Limits.buttons)),
            ]
        ),
        .calendar: template(
            "a calendar template",
            [
                .required("id", .text), .required("id_type", .choice(CalendarTemplate.IDType.allCases.map(\.rawValue))),
                .required("content", .object(content)), .optional("buttons", .buttons(Limits.buttonsBesideFixed)),
            ]
        ),
    ]

    private static func template(_ name: String, _ members: [Member]) -> ObjectRules {
        ObjectRules(name, [.required("object_type", .text)] + members)
    }
}
