import JSON
import KakaoAPI
import Templates

/// A default template in the form in which Kakao returns it: as arguments of a template of Kakao's own, and as a message
/// in KakaoTalk's format. (Names as in the samples of Kakao's SDK for Android.)
struct SharedMessage {
    private let settings: KakaoSandboxSettings
    private let kind: Template.Kind
    private var args = JSONObject()
    private var content = JSONObject()
    /// The link of the whole message.
    private var link = JSONObject()
    private var warnings = JSONObject()

    /// The ids in the samples of Kakao's SDKs.
    static func templateID(_ kind: Template.Kind) -> Int64 {
        switch kind {
        case .feed: 17_888
        case .list: 17_314
        case .location: 17_893
        case .commerce: 23_072
        case .text: 35_445
        case .calendar: 81_000
        }
    }

    /// Whether an id is Kakao's own, of a type of default template.
    static func isOwn(_ templateID: Int64) -> Bool {
        Template.Kind.allCases.contains { Self.templateID($0) == templateID }
    }

    /// Returns the part of a message that is the same for all messages of an app, apart from the type and the link.
    static func header(_ settings: KakaoSandboxSettings, type: String, link: JSONObject) -> JSONValue {
        let scheme: JSONValue = .string("kakao\(settings.nativeAppKey)://kakaolink")
        var link = link
        for name in ["LCA", "LCI"] where link[name] == nil { link[name] = scheme }
        for name in ["LCP", "LCM"] { link[name] = scheme }
        return [
            "TP": .string(type), "ME": "${ME}", "SID": .string("capri_\(settings.appID)"),
            "DID": .string("https://sandbox.example/"), "SNM": "Sandbox",
            "SIC": .string("https://k.kakaocdn.net/14/dn/sandbox/o.jpg"), "L": .object(link),
            // The least versions of KakaoTalk for Android, iOS, Windows and macOS.
            "VA": "6.0.0", "VI": "5.9.8", "VW": "2.5.1", "VM": "2.2.0",
            "FW": true, "RF": "out-client",
        ]
    }

    init(_ template: Template, _ settings: KakaoSandboxSettings) {
        self.settings = settings
        kind = template.kind
        switch template {
        case .feed(let feed):
            add(feed.content)
            add(feed.social)
            add(feed.buttons, feed.buttonTitle, feed.content.link)
        case .list(let list):
            args["${HEADER_TITLE}"] = .string(list.headerTitle)
            link = links(of: list.headerLink, "HEADER_")
            content["HD"] = ["TD": ["T": .string(list.headerTitle)], "L": .object(link)]
            let places = ["FIRST_", "SECOND_", "THIRD_"]
            content["ITL"] = .array(zip(places, list.contents).map { .object(item($1, $0)) })
            add(list.buttons, list.buttonTitle, list.headerLink)
        case .location(let location):
            add(location.content)
            add(location.social)
            add(location.buttons, location.buttonTitle, location.content.link, map(of: location))
        case .commerce(let commerce):
            add(commerce.content)
            add(commerce.commerce)
            add(commerce.buttons, commerce.buttonTitle, commerce.content.link)
        case .text(let text):
            args["${TITLE}"] = .string(text.text)
            link = links(of: text.link, "")
            content["TI"] = ["TD": ["T": .string(text.text)], "L": .object(link), "FT": true]
            add(text.buttons, text.buttonTitle, text.link)
        case .calendar(let calendar):
            add(calendar.content)
            args["${ID}"] = .string(calendar.id)
            args["${ID_TYPE}"] = .string(calendar.idType.rawValue)
            add(calendar.buttons, nil, calendar.content.link)
        }
    }

    func validation(_ schemeParams: JSONObject?) -> TemplateValidation {
        let type =
            switch kind {
            case .list: "List"
            case .commerce: "Commerce"
            case .feed, .location, .text, .calendar: "Feed"
            }
        return TemplateValidation(
            templateID: Self.templateID(kind),
            templateArgs: args,
            templateMessage: ["P": Self.header(settings, type: type, link: link), "C": .object(content)],
            warnings: warnings,
            argumentWarnings: [:],
            schemeParams: schemeParams
        )
    }

    // MARK: Parts

    /// Adds the content of a message that has one.
    private mutating func add(_ part: Content) {
        args["${IMAGE_COUNT}"] = .string(part.imageURL == nil ? "0" : "1")
        let item = item(part, "")
        let links = item["L"]
        link = links?.object ?? [:]
        if let image = item["TH"] {
            content["THC"] = 1
            content["THL"] = [["TH": image, "L": links ?? [:]]]
        }
        content["TI"] = ["TD": item["TD"] ?? [:], "L": links ?? [:]]
    }

    /// Adds the arguments of a content, and returns it as an item of a list.
    private mutating func item(_ part: Content, _ prefix: String) -> JSONObject {
        args["${\(prefix)TITLE}"] = .string(part.title ?? "")
        args["${\(prefix)DESCRIPTION}"] = .string(part.description ?? "")
        args["${\(prefix)IMAGE_URL}"] = .string(part.imageURL ?? "")
        if prefix.isEmpty {
            args["${IMAGE_WIDTH}"] = .string(part.imageWidth.map { String($0) } ?? "")
            args["${IMAGE_HEIGHT}"] = .string(part.imageHeight.map { String($0) } ?? "")
        }
        var text: JSONObject = ["T": .string(part.title ?? "")]
        // An empty description is left out.
        if let description = part.description, !description.isEmpty { text["D"] = .string(description) }
        var item: JSONObject = ["TD": .object(text), "L": .object(links(of: part.link, prefix))]
        if let url = part.imageURL {
            var image: JSONObject = ["THU": .string(url)]
            if let width = part.imageWidth { image["W"] = .integer(Int64(width)) }
            if let height = part.imageHeight { image["H"] = .integer(Int64(height)) }
            item["TH"] = .object(image)
        }
        if !prefix.isEmpty { item["UA"] = [:] }
        return item
    }

    /// Adds the arguments of a link, and returns the addresses that Kakao keeps.
    private mutating func links(of part: Link, _ prefix: String) -> JSONObject {
        let scheme = "kakao\(settings.nativeAppKey)://kakaolink?"
        let addresses = [
            ("WEB_URL", "LPC", part.webURL), ("MOBILE_WEB_URL", "LMO", part.mobileWebURL),
            ("ANDROID_EXECUTION_URL", "LCA", part.androidExecutionParams.map { scheme + $0 }),
            ("IOS_EXECUTION_URL", "LCI", part.iosExecutionParams.map { scheme + $0 }),
        ]
        var kept = JSONObject()
        for (name, shortName, address) in addresses {
            args["${\(prefix)\(name)}"] = .string(address ?? "")
            guard let address else { continue }
            guard isRegistered(address) else {
                warnings["P.L.\(shortName)"] = .string(
                    "\(address). app does not have DOMAIN_CHECK_PASS permission. get the permission or it will be dropped."
                )
                continue
            }
            kept[shortName] = .string(address)
        }
        return kept
    }

    private mutating func add(_ social: Social?) {
        let counts = [
            ("LIKE", "LK", social?.likeCount), ("COMMENT", "CM", social?.commentCount),
            ("SHARED", "SH", social?.sharedCount), ("VIEW", "VC", social?.viewCount),
            ("SUBSCRIBER", "SB", social?.subscriberCount),
        ]
        var object = JSONObject()
        for (name, shortName, count) in counts {
            args["${\(name)_COUNT}"] = .string(String(count ?? 0))
            object[shortName] = .integer(Int64(count ?? 0))
        }
        content["SO"] = .object(object)
    }

    private mutating func add(_ commerce: Commerce) {
        func text(_ number: Int?) -> JSONValue { .string(number.map { String($0) } ?? "") }
        args["${REGULAR_PRICE}"] = text(commerce.regularPrice)
        args["${DISCOUNT_PRICE}"] = text(commerce.discountPrice)
        args["${DISCOUNT_RATE}"] = text(commerce.discountRate)
        args["${FLAT_DISCOUNT}"] = text(commerce.fixedDiscountPrice)
        args["${CURRENCY_UNIT}"] = .string(commerce.currencyUnit ?? Self.defaultCurrency)
        args["${CURRENCY_UNIT_POSITION}"] = text(commerce.currencyUnitPosition?.rawValue)
        args["${PROMOTION}"] = ""
        content["CMC"] = [
            "RP": .integer(Int64(commerce.regularPrice)), "CU": .string(commerce.currencyUnit ?? Self.defaultCurrency),
        ]
    }

    private static let defaultCurrency = "원"

    /// Adds the buttons of a message.
    ///
    /// - Parameter map: The button of a location, which comes last.
    private mutating func add(_ buttons: [Button]?, _ title: String?, _ link: Link, _ map: Button? = nil) {
        var buttons = (buttons ?? []).isEmpty ? [Button(title ?? Button.defaultTitle, link)] : buttons ?? []
        if let map { buttons = buttons.prefix(1) + [map] }
        content["BUL"] = .array(
            zip(["FIRST_BUTTON_", "SECOND_BUTTON_"], buttons).map { place, button in
                args["${\(place)TITLE}"] = .string(button.title)
                return ["BU": ["T": .string(button.title)], "L": .object(links(of: button.link, place))]
            }
        )
    }

    /// Returns the button that shows where a location is.
    private func map(of location: LocationTemplate) -> Button {
        let address = "https://map.kakao.com/link/search/\(location.address)"
        return Button("위치 보기", Link(webURL: address, mobileWebURL: address))
    }

    /// Whether Kakao keeps a link: to a registered domain, to its own map, or to the app.
    private func isRegistered(_ address: String) -> Bool {
        let domains = RegisteredDomains(settings.domains)
        return domains.isEmpty || !address.hasPrefix("http") || address.hasPrefix("https://map.kakao.com/")
            || domains.contains(address: address)
    }
}
