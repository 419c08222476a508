/// The parts of a message as KakaoTalk shows them, from top to bottom.
struct Bubble {
    enum Part {
        case header(ShownText)
        /// A picture: its address, and its size in pixels if it is known.
        case image(url: String, width: Int?, height: Int?)
        case profile(ShownText)
        case title(ShownText)
        case description(ShownText)
        /// A content of a list.
        case row(title: ShownText?, description: ShownText?, hasImage: Bool)
        /// An item, or the sum of the items.
        case item(ShownText, ShownText, isSum: Bool)
        case price(String, regular: String?, discount: String?)
        case place(ShownText)
        case counts([String])
        case buttons([ShownText])
    }

    private(set) var parts: [Part] = []

    init(_ template: Template) {
        switch template {
        case .feed(let feed):
            add(feed.itemContent?.profileText, Limits.profileText) { .profile($0) }
            add(feed.content)
            if let items = feed.itemContent { add(items) }
            add(feed.social)
            add(feed.buttons, or: feed.buttonTitle)
        case .list(let list):
            parts.append(.header(ShownText(list.headerTitle, Limits.headerTitle)))
            for content in list.contents.prefix(Limits.contents) {
                parts.append(
                    .row(
                        title: content.title.map { ShownText($0) },
                        description: content.description.map { ShownText($0) },
                        hasImage: content.imageURL != nil
                    )
                )
            }
            add(list.buttons, or: list.buttonTitle)
        case .location(let location):
            add(location.content)
            parts.append(
                .place(ShownText([location.addressTitle, location.address].compactMap(\.self).joined(separator: ", ")))
            )
            add(location.social)
            add(location.buttons, or: location.buttonTitle, maximum: Limits.buttonsBesideFixed, fixed: ["위치 보기"])
        case .commerce(let commerce):
            // A description of the content is not shown.
            add(commerce.content.imageURL, commerce.content)
            add(commerce.commerce.productName) { .description($0) }
            add(commerce.content.title) { .title($0) }
            add(commerce.commerce)
            add(commerce.buttons, or: commerce.buttonTitle)
        case .text(let text):
            parts.append(.description(ShownText(text.text, Limits.text)))
            add(text.buttons, or: text.buttonTitle)
        case .calendar(let calendar):
            add(calendar.content)
            add(calendar.buttons, or: nil, maximum: Limits.buttonsBesideFixed, fixed: ["일정 등록"], hasDefault: false)
        }
    }

    private mutating func add(_ text: String?, _ shown: Int? = nil, _ part: (ShownText) -> Part) {
        guard let text, !text.isEmpty else { return }
        parts.append(part(ShownText(text, shown)))
    }

    private mutating func add(_ imageURL: String?, _ content: Content) {
        guard let imageURL else { return }
        parts.append(.image(url: imageURL, width: content.imageWidth, height: content.imageHeight))
    }

    private mutating func add(_ content: Content) {
        add(content.imageURL, content)
        add(content.title) { .title($0) }
        add(content.description) { .description($0) }
    }

    private mutating func add(_ items: ItemContent) {
        add(items.titleImageText, Limits.titleImageText) { .title($0) }
        add(items.titleImageCategory, Limits.titleImageCategory) { .description($0) }
        for item in (items.items ?? []).prefix(Limits.items) {
            parts.append(.item(ShownText(item.item, Limits.item), ShownText(item.itemOp, Limits.itemOp), isSum: false))
        }
        if let sum = items.sum, let sumOp = items.sumOp {
            parts.append(.item(ShownText(sum, Limits.sum), ShownText(sumOp, Limits.sumOp), isSum: true))
        }
    }

    private mutating func add(_ social: Social?) {
        guard let social else { return }
        let counts = [
            ("좋아요", social.likeCount), ("댓글", social.commentCount), ("공유", social.sharedCount),
            ("조회", social.viewCount),
            ("구독", social.subscriberCount),
        ]
        let shown = counts.compactMap { name, count in count.map { "\(name) \($0.grouped)" } }.prefix(Limits.counts)
        if !shown.isEmpty { parts.append(.counts(Array(shown))) }
    }

    private mutating func add(_ commerce: Commerce) {
        func amount(_ price: Int) -> String {
            let unit = commerce.currencyUnit ?? "원"
            return commerce.currencyUnitPosition == .beforePrice ? unit + price.grouped : price.grouped + unit
        }
        guard let discounted = commerce.discountPrice else {
            return parts.append(.price(amount(commerce.regularPrice), regular: nil, discount: nil))
        }
        let discount = commerce.discountRate.map { "\($0)%" } ?? commerce.fixedDiscountPrice.map { "-\(amount($0))" }
        parts.append(.price(amount(discounted), regular: amount(commerce.regularPrice), discount: discount))
    }

    private mutating func add(
        _ buttons: [Button]?,
        or title: String?,
        maximum: Int = Limits.buttons,
        fixed: [String] = [],
        hasDefault: Bool = true
    ) {
        var titles = (buttons ?? []).prefix(maximum).map(\.title)
        if titles.isEmpty, hasDefault { titles = [title ?? Button.defaultTitle] }
        titles += fixed
        if !titles.isEmpty { parts.append(.buttons(titles.map { ShownText($0, Limits.buttonTitle) })) }
    }
}

/// A text, of which KakaoTalk may show the beginning only.
struct ShownText {
    let shown: String
    /// The end that is not shown.
    let cut: String

    init(_ text: String, _ limit: Int? = nil) {
        let scalars = text.unicodeScalars
        guard let limit, scalars.count > limit else {
            (shown, cut) = (text, "")
            return
        }
        // A cut inside of a character would show another one. From the start: a step back in a run of flags reads the
        // whole run.
        var boundary = text.startIndex
        var count = 0
        while boundary < text.endIndex {
            count += text[boundary].unicodeScalars.count
            guard count <= limit else { break }
            text.formIndex(after: &boundary)
        }
        (shown, cut) = (String(text[..<boundary]), String(text[boundary...]))
    }
}

extension Int {
    /// The number with commas between groups of three digits.
    fileprivate var grouped: String {
        var digits = String(magnitude)
        var groups: [String] = []
        while digits.count > 3 {
            groups.insert(String(digits.suffix(3)), at: 0)
            digits.removeLast(3)
        }
        return (self < 0 ? "-" : "") + ([digits] + groups).joined(separator: ",")
    }
}
