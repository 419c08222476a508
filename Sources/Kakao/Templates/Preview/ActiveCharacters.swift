extension Unicode.Scalar {
    /// Whether a terminal or a page may act on the character instead of showing it: controls other than line feed and
    /// tab, and characters that turn the direction of what follows.
    var isActive: Bool {
        switch self {
        case "\n", "\t": false
        case "\0"..."\u{1F}", "\u{7F}"..."\u{9F}", "\u{61C}", "\u{200E}", "\u{200F}", "\u{202A}"..."\u{202E}",
            "\u{2066}"..."\u{2069}":
            true
        default: false
        }
    }
}

extension String {
    /// The text with U+FFFD in place of characters that a terminal would act on.
    package var withoutActiveCharacters: String {
        var text = UnicodeScalarView()
        for scalar in unicodeScalars { text.append(scalar.isActive ? "\u{FFFD}" : scalar) }
        return String(text)
    }
}
