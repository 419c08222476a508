import Templates
import Testing

@Suite struct PreviewTests {
    @Test("The text of a feed has its parts from top to bottom")
    func feed() {
        let template = Template.feed(
            FeedTemplate(
                content: Content(
                    title: "Cake",
                    description: "Fresh today",
                    imageURL: "https://example.com/cake.png",
                    imageWidth: 800,
                    imageHeight: 400,
                    link: Link("https://example.com")
                ),
                itemContent: ItemContent(items: [Item("Tax", "1,000")], sum: "Total", sumOp: "11,000"),
                social: Social(likeCount: 1286, commentCount: 45, sharedCount: 8, viewCount: 9),
                buttons: [Button("Order", Link("https://example.com/order"))]
            )
        )
        #expect(
            TemplatePreview(template).text == """
                [image https://example.com/cake.png 800x400]
                *Cake*
                Fresh today
                · Tax: 1,000
                = Total: 11,000
                좋아요 1,286 · 댓글 45 · 공유 8
                [ Order ]

                """
        )
    }

    @Test("What KakaoTalk does not show is marked, and no character is cut in half")
    func cut() {
        let text = String(repeating: "가", count: 199) + "👩‍👩‍👧" + "tail"
        let preview = TemplatePreview(.text(TextTemplate(text: text, link: Link("https://example.com"))))
        #expect(preview.text.contains("가⟦👩‍👩‍👧tail⟧"))
        #expect(preview.html.contains("<s title=\"not shown\">👩‍👩‍👧tail</s>"))
        #expect(preview.text.contains("[ 자세히 보기 ]"))
    }

    @Test("A text of many flags, in which a step back reads all of them, is cut at once")
    func flags() {
        let text = String(repeating: "🇰🇷", count: 30_000)
        let preview = TemplatePreview(.text(TextTemplate(text: text, link: Link("https://example.com"))))
        #expect(preview.text.hasPrefix("🇰🇷") && preview.text.contains("⟦🇰🇷"))
    }

    @Test("Prices, discounts and fixed buttons are shown")
    func others() {
        let link = Link("https://example.com")
        let commerce = Commerce(regularPrice: 208_800, discountPrice: 146_160, discountRate: 30)
        let shop = TemplatePreview(
            .commerce(CommerceTemplate(content: Content(title: "Dress", link: link), commerce: commerce))
        )
        #expect(shop.text == "*Dress*\n146,160원 (208,800원) 30%\n[ 자세히 보기 ]\n")
        let place = LocationTemplate(
            address: "Pangyo 1",
            addressTitle: "Office",
            content: Content(title: "A", link: link)
        )
        #expect(TemplatePreview(.location(place)).text == "*A*\n@ Office, Pangyo 1\n[ 자세히 보기 ] [ 위치 보기 ]\n")
        let event = CalendarTemplate(id: "1", idType: .event, content: Content(title: "A", link: link))
        #expect(TemplatePreview(.calendar(event)).text == "*A*\n[ 일정 등록 ]\n")
    }

    @Test("The page loads nothing, links to nothing and runs nothing, whatever the template contains")
    func hostile() {
        let attack = "\"><script>alert(1)</script><img src=x onerror=alert(1)><a href=\"javascript:x\">\u{202E}\0"
        for kind in Template.Kind.allCases {
            var random = RandomTemplates(seed: 3)
            for _ in 0..<50 {
                let page = TemplatePreview(random.template(kind)).html
                #expect(!page.contains("src=") && !page.contains("href") && !page.contains("<script"))
            }
        }
        let link = Link(attack)
        let item = ItemContent(profileText: attack, titleImageText: attack, items: [Item(attack, attack)])
        let content = Content(title: attack, description: attack, imageURL: attack, link: link)
        let feed = FeedTemplate(content: content, itemContent: item, buttons: [Button(attack, link)])
        let page = TemplatePreview(.feed(feed)).html
        #expect(!page.contains("<script") && !page.contains("<img") && !page.contains("<a "))
        #expect(!page.unicodeScalars.contains("\u{202E}") && !page.unicodeScalars.contains("\0"))
    }
}
