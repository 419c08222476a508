import JSON
import KakaoAPI
import Templates

/// KakaoTalk Sharing: the validation of templates, and images for messages.
struct SharingCalls: Sendable {
    /// The size of all simulated images, in pixels.
    private static let imageSize: Int64 = 640

    let settings: KakaoSandboxSettings
    let uploads: ImageUploads

    func add(to server: inout KakaoCallServer) {
        server.on(ValidateDefaultTemplate.self) { call, _ throws(KakaoRefusal) in
            guard let template = try? Template(json: JSONValue.object(call.template).description) else {
                throw .badParameter("failed to parse parameter. name=template_object, the template cannot be read")
            }
            return DefaultMessage(template, settings).validation(call.schemeParams)
        }
        server.on(ValidateCustomTemplate.self) { call, _ in
            customValidation(call.templateID, call.templateArgs, call.schemeParams)
        }
        server.on(ValidateScrapTemplate.self) { call, _ in
            var args = call.templateArgs ?? JSONObject()
            // The caller cannot replace the arguments that Kakao takes from the page.
            args["${TITLE}"] = .string("The page \(call.requestURL)")
            args["${WEB_URL}"] = .string(call.requestURL)
            return customValidation(call.templateID ?? DefaultMessage.templateID(.feed), args, call.schemeParams)
        }
        server.on(UploadImage.self) { call, caller throws(KakaoRefusal) in try uploads.add(call, caller.files) }
        server.on(ScrapeImage.self) { call, _ throws(KakaoRefusal) in
            guard call.imageURL.hasPrefix("http://") || call.imageURL.hasPrefix("https://") else {
                throw .badParameter("The Parameter [image_url] is not a URL.")
            }
            // The same image has the same address.
            let name = String(call.imageURL.utf8.reduce(UInt64(5381)) { $0 &* 33 ^ UInt64($1) }, radix: 16)
            let url = "\(call.secureResource == true ? "https" : "http")://k.kakaocdn.net/14/dn/\(name)/original.png"
            return SharedImage(
                url: url,
                contentType: "image/png",
                length: 63_541,
                width: Self.imageSize,
                height: Self.imageSize
            )
        }
        server.on(DeleteImage.self) { call, _ in uploads.remove(call.imageURL) }
    }

    /// Returns the answer for a custom template. A template whose arguments are not configured has none.
    private func customValidation(
        _ templateID: Int64,
        _ args: JSONObject?,
        _ schemeParams: JSONObject?
    ) -> TemplateValidation {
        var missing = JSONObject()
        for name in settings.templateArguments[templateID] ?? [] where args?[name] == nil {
            missing["${\(name)}"] = "there's no given value."
        }
        var values = JSONObject()
        for (name, value) in args?.members ?? [] {
            values[name.hasPrefix("${") ? name : "${\(name)}"] = value
        }
        return TemplateValidation(
            templateID: templateID,
            templateArgs: args.map { _ in values },
            templateMessage: ["P": ["TP": "Feed", "ME": "${ME}"], "C": [:]],
            warnings: [:],
            argumentWarnings: missing,
            schemeParams: schemeParams
        )
    }
}

/// A default template in the form in which Kakao returns it: as arguments of a template of Kakao's own, and as a message
/// in KakaoTalk's format.
struct DefaultMessage {
    private let settings: KakaoSandboxSettings
    private let kind: Template.Kind
    private var args = JSONObject()
    private var content = JSONObject()
    private var link: JSONValue = [:]
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

    init(_ template: Template, _ settings: KakaoSandboxSettings) {
        self.settings = settings
        kind = template.kind
        switch template {
        case .feed(let feed):
            add(feed.content, "")
            add(feed.social)
            add(feed.buttons, feed.buttonTitle, feed.content.link)
        case .list(let list):
            args["${HEADER_TITLE}"] = .string(list.headerTitle)
            add(list.headerLink, "HEADER_")
            for (place, item) in zip(["FIRST_", "SECOND_", "THIRD_"], list.contents) { add(item, place) }
            add(list.buttons, list.buttonTitle, list.headerLink)
        case .location(let location):
            add(location.content, "")
            add(location.social)
            args["${ADDRESS}"] = .string(location.address)
            args["${ADDRESS_TITLE}"] = .string(location.addressTitle ?? "")
            add(location.buttons, location.buttonTitle, location.content.link)
        case .commerce(let commerce):
            add(commerce.content, "")
            args["${REGULAR_PRICE}"] = .string(String(commerce.commerce.regularPrice))
            args["${DISCOUNT_PRICE}"] = .string(commerce.commerce.discountPrice.map { String($0) } ?? "")
            args["${DISCOUNT_RATE}"] = .string(commerce.commerce.discountRate.map { String($0) } ?? "")
            args["${FLAT_DISCOUNT}"] = .string(commerce.commerce.fixedDiscountPrice.map { String($0) } ?? "")
            args["${CURRENCY_UNIT}"] = .string(commerce.commerce.currencyUnit ?? "원")
            add(commerce.buttons, commerce.buttonTitle, commerce.content.link)
        case .text(let text):
            args["${TITLE}"] = .string(text.text)
            add(text.link, "")
            add(text.buttons, text.buttonTitle, text.link)
        case .calendar(let calendar):
            add(calendar.content, "")
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
        var body = content
        body["TI"] = ["TD": ["T": "${TITLE}"], "L": link]
        return TemplateValidation(
            templateID: Self.templateID(kind),
            templateArgs: args,
            templateMessage: [
                "P": [
                    "TP": .string(type), "ME": "${ME}", "SID": .string("capri_\(settings.appID)"), "SNM": "Sandbox",
                    "L": link, "FW": true, "RF": "out-client",
                ],
                "C": .object(body),
            ],
            warnings: warnings,
            argumentWarnings: [:],
            schemeParams: schemeParams
        )
    }

    private mutating func add(_ part: Content, _ prefix: String) {
        args["${\(prefix)TITLE}"] = .string(part.title ?? "")
        args["${\(prefix)DESCRIPTION}"] = .string(part.description ?? "")
        args["${\(prefix)IMAGE_URL}"] = .string(part.imageURL ?? "")
        args["${\(prefix)IMAGE_WIDTH}"] = .string(part.imageWidth.map { String($0) } ?? "")
        args["${\(prefix)IMAGE_HEIGHT}"] = .string(part.imageHeight.map { String($0) } ?? "")
        add(part.link, prefix)
    }

    private mutating func add(_ part: Link, _ prefix: String) {
        let scheme = "kakao\(settings.nativeAppKey)://kakaolink?"
        let addresses = [
            ("WEB_URL", "LPC", part.webURL), ("MOBILE_WEB_URL", "LMO", part.mobileWebURL),
            ("ANDROID_EXECUTION_URL", "LCA", part.androidExecutionParams.map { scheme + $0 }),
            ("IOS_EXECUTION_URL", "LCI", part.iosExecutionParams.map { scheme + $0 }),
        ]
        var short = JSONObject()
        for (name, shortName, address) in addresses {
            args["${\(prefix)\(name)}"] = .string(address ?? "")
            guard let address else { continue }
            if !isRegistered(address) {
                warnings["P.L.\(shortName)"] = .string(
                    "\(address). app does not have DOMAIN_CHECK_PASS permission. get the permission or it will be dropped."
                )
                continue
            }
            short[shortName] = .string(address)
        }
        if prefix.isEmpty || prefix == "HEADER_" { link = .object(short) }
    }

    private mutating func add(_ social: Social?) {
        let counts = [
            ("LIKE", social?.likeCount), ("COMMENT", social?.commentCount), ("SHARED", social?.sharedCount),
            ("VIEW", social?.viewCount), ("SUBSCRIBER", social?.subscriberCount),
        ]
        for (name, count) in counts { args["${\(name)_COUNT}"] = .string(String(count ?? 0)) }
    }

    private mutating func add(_ buttons: [Button]?, _ title: String?, _ link: Link) {
        let buttons = (buttons ?? []).isEmpty ? [Button(title ?? Button.defaultTitle, link)] : buttons ?? []
        for (place, button) in zip(["FIRST_BUTTON_", "SECOND_BUTTON_"], buttons) {
            args["${\(place)TITLE}"] = .string(button.title)
            add(button.link, place)
        }
        content["BUL"] = .array(buttons.prefix(2).map { ["BU": ["T": .string($0.title)]] })
    }

    /// Whether Kakao keeps a link: to a registered domain, or to the app.
    private func isRegistered(_ address: String) -> Bool {
        let domains = RegisteredDomains(settings.domains)
        return domains.isEmpty || !address.hasPrefix("http") || domains.contains(address: address)
    }
}
