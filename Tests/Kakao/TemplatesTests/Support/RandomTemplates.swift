import Templates

/// Random templates within all limits, the same for the same seed.
struct RandomTemplates: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) {
        state = seed
    }

    /// SplitMix64.
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var bits = state
        bits = (bits ^ bits >> 30) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ bits >> 27) &* 0x94D0_49BB_1331_11EB
        return bits ^ bits >> 31
    }

    mutating func template(_ kind: Template.Kind) -> Template {
        switch kind {
        case .feed:
            .feed(
                FeedTemplate(
                    content: content(),
                    itemContent: maybe { $0.itemContent() },
                    social: maybe { $0.social() },
                    buttonTitle: maybe { $0.text(14) },
                    buttons: maybe { $0.buttons(2) }
                )
            )
        case .list:
            .list(
                ListTemplate(
                    headerTitle: text(200),
                    headerLink: link(),
                    contents: (0..<Int.random(in: 2...3, using: &self)).map { _ in content() },
                    buttonTitle: maybe { $0.text(14) },
                    buttons: maybe { $0.buttons(2) }
                )
            )
        case .location:
            .location(
                LocationTemplate(
                    address: text(80),
                    addressTitle: maybe { $0.text(40) },
                    content: content(),
                    social: maybe { $0.social() },
                    buttonTitle: maybe { $0.text(14) },
                    buttons: maybe { $0.buttons(1) }
                )
            )
        case .commerce:
            .commerce(
                CommerceTemplate(
                    content: content(),
                    commerce: commerce(),
                    buttonTitle: maybe { $0.text(14) },
                    buttons: maybe { $0.buttons(2) }
                )
            )
        case .text:
            .text(
                TextTemplate(
                    text: text(200),
                    link: link(),
                    buttonTitle: maybe { $0.text(14) },
                    buttons: maybe { $0.buttons(2) }
                )
            )
        case .calendar:
            .calendar(
                CalendarTemplate(
                    id: text(20),
                    idType: Bool.random(using: &self) ? .event : .calendar,
                    content: content(),
                    buttons: maybe { $0.buttons(1) }
                )
            )
        }
    }

    private mutating func maybe<Part>(_ make: (inout RandomTemplates) -> Part) -> Part? {
        Bool.random(using: &self) ? make(&self) : nil
    }

    /// A text of 1 to `limit` characters, also Korean ones and those that JSON escapes.
    mutating func text(_ limit: Int) -> String {
        let scalars = Array("abc XYZ 가나다 한글 \"\\/<&>\n😀é".unicodeScalars)
        var text = String.UnicodeScalarView()
        for _ in 0..<Int.random(in: 1...limit, using: &self) {
            text.append(scalars[Int.random(in: 0..<scalars.count, using: &self)])
        }
        return String(text)
    }

    private mutating func url() -> String {
        let hosts = ["example.com", "www.example.com", "shop.example.com:8443"]
        return "https://\(hosts.randomElement(using: &self) ?? "")/\(next() % 1000)?q=가"
    }

    private mutating func link() -> Link {
        Bool.random(using: &self)
            ? Link(url(), executionParams: maybe { "id=\($0.next() % 100)&from=share" })
            : Link(androidExecutionParams: "a=1", iosExecutionParams: "a=1")
    }

    private mutating func content() -> Content {
        Content(
            title: text(40),
            description: maybe { $0.text(80) },
            imageURL: maybe { $0.url() },
            imageWidth: maybe { Int.random(in: 200...4000, using: &$0) },
            imageHeight: maybe { Int.random(in: 200...4000, using: &$0) },
            link: link()
        )
    }

    private mutating func buttons(_ maximum: Int) -> [Button] {
        (0..<Int.random(in: 0...maximum, using: &self)).map { _ in Button(text(14), link()) }
    }

    private mutating func social() -> Social {
        Social(
            likeCount: Int.random(in: 0...1_000_000, using: &self),
            commentCount: maybe { Int.random(in: 0...1000, using: &$0) },
            viewCount: maybe { Int.random(in: 0...1000, using: &$0) }
        )
    }

    private mutating func itemContent() -> ItemContent {
        let hasSum = Bool.random(using: &self)
        return ItemContent(
            profileText: maybe { $0.text(16) },
            profileImageURL: maybe { $0.url() },
            titleImageText: maybe { $0.text(24) },
            titleImageURL: maybe { $0.url() },
            titleImageCategory: maybe { $0.text(14) },
            items: maybe { random in
                (0..<Int.random(in: 1...5, using: &random)).map { _ in Item(random.text(6), "1,000원") }
            },
            sum: hasSum ? text(6) : nil,
            sumOp: hasSum ? "15,000원" : nil
        )
    }

    private mutating func commerce() -> Commerce {
        Commerce(
            regularPrice: Int.random(in: 0...1_000_000, using: &self),
            discountPrice: Int.random(in: 0...1_000_000, using: &self),
            discountRate: maybe { Int.random(in: 0...100, using: &$0) },
            productName: maybe { $0.text(30) },
            currencyUnit: maybe { _ in "$" },
            currencyUnitPosition: maybe { Bool.random(using: &$0) ? .afterPrice : .beforePrice }
        )
    }
}
