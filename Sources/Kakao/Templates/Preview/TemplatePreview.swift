/// An approximation of how KakaoTalk shows a message. Texts are cut where Kakao documents a number of characters; where
/// it documents a number of lines, the whole text is shown.
public struct TemplatePreview: Sendable {
    /// A page with the message bubble, complete in itself: without links, scripts and pictures from elsewhere. What
    /// KakaoTalk does not show is struck out.
    public let html: String
    /// The message as plain text. What KakaoTalk does not show is between `⟦` and `⟧`.
    public let text: String

    /// Creates the preview of a template.
    public init(_ template: Template) {
        let bubble = Bubble(template)
        html = Self.html(bubble)
        text = bubble.parts.map(Self.text).joined(separator: "\n").withoutActiveCharacters + "\n"
    }

    // MARK: Text

    private static func text(_ part: Bubble.Part) -> String {
        switch part {
        case .header(let text): "■ \(shown(text))"
        case .image(let url, let width, let height):
            "[image \(url)\(width.flatMap { width in height.map { " \(width)x\($0)" } } ?? "")]"
        case .profile(let text): "(\(shown(text)))"
        case .title(let text): "*\(shown(text))*"
        case .description(let text): shown(text)
        case .row(let title, let description, let hasImage):
            "- \([title, description].compactMap { $0.map(shown) }.joined(separator: " / "))\(hasImage ? " [image]" : "")"
        case .item(let name, let value, let isSum): "\(isSum ? "=" : "·") \(shown(name)): \(shown(value))"
        case .price(let price, let regular, let discount):
            [price, regular.map { "(\($0))" }, discount].compactMap(\.self).joined(separator: " ")
        case .place(let text): "@ \(shown(text))"
        case .counts(let counts): counts.joined(separator: " · ")
        case .buttons(let titles): titles.map { "[ \(shown($0)) ]" }.joined(separator: " ")
        }
    }

    private static func shown(_ text: ShownText) -> String {
        text.cut.isEmpty ? text.shown : "\(text.shown)⟦\(text.cut)⟧"
    }

    // MARK: HTML

    private static let style = """
        body{margin:0;padding:24px;background:#b2c7d9;font:15px/1.4 sans-serif;color:#191919}
        .bubble{width:280px;border-radius:14px;overflow:hidden;background:#fff}
        .part{padding:6px 14px;overflow-wrap:anywhere;white-space:pre-line}
        .image{height:140px;display:flex;align-items:center;justify-content:center;background:#e5e5e5;color:#666;\
        font-size:12px;padding:0 14px;overflow:hidden}
        .header,.title{font-weight:bold}
        .profile,.place,.counts{color:#666;font-size:13px}
        .row{border-top:1px solid #eee}
        .item{display:flex;justify-content:space-between}
        .sum{font-weight:bold;border-top:1px solid #eee}
        .price b{font-size:18px}
        .button{margin:6px 14px;padding:9px;border-radius:6px;background:#f2f2f2;text-align:center}
        s{color:#c00;background:#fee}
        """

    private static func html(_ bubble: Bubble) -> String {
        """
        <!doctype html>
        <html lang="ko"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">\
        <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">\
        <title>KakaoTalk preview</title><style>\(style)</style></head>
        <body><div class="bubble">
        \(bubble.parts.map(html).joined(separator: "\n"))
        </div></body></html>

        """
    }

    private static func html(_ part: Bubble.Part) -> String {
        switch part {
        case .header(let text): block("header", markup(text))
        case .image(let url, let width, let height):
            "<div class=\"image\">\(escaped(url))\(width.flatMap { width in height.map { " (\(width)×\($0))" } } ?? "")</div>"
        case .profile(let text): block("profile", markup(text))
        case .title(let text): block("title", markup(text))
        case .description(let text): block("description", markup(text))
        case .row(let title, let description, let hasImage):
            block(
                "row",
                (title.map { "<b>\(markup($0))</b>" } ?? "") + (description.map { "<br>\(markup($0))" } ?? "")
                    + (hasImage ? " <small>[image]</small>" : "")
            )
        case .item(let name, let value, let isSum):
            block(isSum ? "item sum" : "item", "<span>\(markup(name))</span><span>\(markup(value))</span>")
        case .price(let price, let regular, let discount):
            block(
                "price",
                "<b>\(escaped(price))</b>" + (regular.map { " <small>\(escaped($0))</small>" } ?? "")
                    + (discount.map { " <em>\(escaped($0))</em>" } ?? "")
            )
        case .place(let text): block("place", markup(text))
        case .counts(let counts): block("counts", escaped(counts.joined(separator: " · ")))
        case .buttons(let titles): titles.map { "<div class=\"button\">\(markup($0))</div>" }.joined(separator: "\n")
        }
    }

    private static func block(_ name: String, _ markup: String) -> String {
        "<div class=\"part \(name)\">\(markup)</div>"
    }

    private static func markup(_ text: ShownText) -> String {
        escaped(text.shown) + (text.cut.isEmpty ? "" : "<s title=\"not shown\">\(escaped(text.cut))</s>")
    }

    /// Returns a text for an element or an attribute of HTML.
    private static func escaped(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case "'": escaped += "&#39;"
            case _ where scalar.isActive: escaped += "\u{FFFD}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
