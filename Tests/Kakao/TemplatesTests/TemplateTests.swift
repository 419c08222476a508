import FoundationEssentials
import Testing

@testable import Templates

@Suite struct TemplateTests {
    @Test("A template is written and read in Kakao's spelling", arguments: Template.Kind.allCases)
    func roundTrip(kind: Template.Kind) throws {
        var random = RandomTemplates(seed: 1)
        for _ in 0..<200 {
            let template = random.template(kind)
            #expect(try Template(json: template.json) == template)
        }
    }

    @Test("The JSON of a template has the members that Kakao documents, and no others")
    func spelling() {
        let template = Template.commerce(
            CommerceTemplate(
                content: Content(
                    title: "Dress",
                    imageURL: "https://example.com/a.png",
                    link: Link("https://example.com")
                ),
                commerce: Commerce(
                    regularPrice: 208_800,
                    discountPrice: 146_160,
                    discountRate: 30,
                    currencyUnitPosition: .beforePrice
                ),
                buttons: [Button("Buy", Link(webURL: "https://example.com/buy", iosExecutionParams: "id=1"))]
            )
        )
        #expect(
            template.json == #"""
                {"buttons":[{"link":{"ios_execution_params":"id=1","web_url":"https://example.com/buy"},"title":"Buy"}],\#
                "commerce":{"currency_unit_position":1,"discount_price":146160,"discount_rate":30,"regular_price":208800},\#
                "content":{"image_url":"https://example.com/a.png",\#
                "link":{"mobile_web_url":"https://example.com","web_url":"https://example.com"},"title":"Dress"},\#
                "object_type":"commerce"}
                """#
        )
    }

    @Test("Members that Kakao does not know are ignored; a missing required one is an error")
    func reading() throws {
        let text = #"{"object_type":"text","text":"Hi","link":{"web_url":"https://example.com"},"color":"red"}"#
        #expect(try Template(json: text) == .text(TextTemplate(text: "Hi", link: Link(webURL: "https://example.com"))))
        #expect(throws: DecodingError.self) { try Template(json: #"{"object_type":"text","text":"Hi"}"#) }
        #expect(throws: DecodingError.self) { try Template(json: #"{"object_type":"poster"}"#) }
    }

    @Test("The linter knows exactly the members of the types")
    func rules() {
        func names<Keys: CodingKey & CaseIterable>(_: Keys.Type) -> Set<String> {
            Set(Keys.allCases.map(\.stringValue))
        }
        func known(_ rules: ObjectRules?) -> Set<String> { Set(rules?.members.map(\.name) ?? []) }
        let templates: [Template.Kind: Set<String>] = [
            .feed: names(FeedTemplate.CodingKeys.self), .list: names(ListTemplate.CodingKeys.self),
            .location: names(LocationTemplate.CodingKeys.self), .commerce: names(CommerceTemplate.CodingKeys.self),
            .text: names(TextTemplate.CodingKeys.self), .calendar: names(CalendarTemplate.CodingKeys.self),
        ]
        for kind in Template.Kind.allCases {
            #expect(known(ObjectRules.templates[kind]) == templates[kind]?.union(["object_type"]))
        }
        #expect(known(.content) == names(Content.CodingKeys.self))
        #expect(known(.link) == names(Link.CodingKeys.self))
        #expect(known(.button) == names(Button.CodingKeys.self))
        #expect(known(.social) == names(Social.CodingKeys.self))
        #expect(known(.item) == names(Item.CodingKeys.self))
        #expect(known(.itemContent) == names(ItemContent.CodingKeys.self))
        #expect(known(.commerce) == names(Commerce.CodingKeys.self))
    }
}
