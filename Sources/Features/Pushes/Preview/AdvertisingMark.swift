import KakaoAPI

extension PushMessage {
    /// The mark with which advertising has to begin (Information and Communications Network Act, enforcement decree,
    /// appendix 6).
    static let advertisingMark = "(광고)"
}

/// The reason for which a message must not be sent as advertising.
enum MarkFault: Sendable, Equatable {
    /// The text with which the notification begins does not begin with the mark.
    case unmarked(path: String)
    /// The notification begins with a text that only the phone knows.
    case localized(path: String)
    /// The phones of a platform show no text, as far as the server knows.
    case invisible(member: String)

    /// The messages that are allowed, in words that follow "must be".
    var allowed: String {
        let mark = PushMessage.advertisingMark
        return switch self {
        case .unmarked(let path): "a message that begins with \(mark) in \(path), since the push is advertising"
        case .localized(let path):
            "a message with a text that begins with \(mark) in place of \(path), since the push is advertising"
        case .invisible(let member):
            "a message whose \(member) begins with \(mark) where phones see it, since the push is advertising. If the app shows its "
                + "custom_field itself, the setting pushes.advertising_text has to name the member that it begins with"
        }
    }
}

extension PhoneView {
    /// Whether it begins with the mark of advertising, as far as the server knows.
    var isMarkedAsAdvertising: Bool { beginning?.isMarked ?? false }

    /// Whether it seems to begin with the mark of advertising.
    var beginsWithMark: Bool { texts.first?.isMarked ?? false }

    /// `nil` if it may be sent as advertising.
    var markFault: MarkFault? {
        guard let beginning else { return .invisible(member: member) }
        if beginning.key != nil { return .localized(path: beginning.path) }
        return beginning.isMarked ? nil : .unmarked(path: beginning.path)
    }
}

extension PhoneText {
    /// Whether it begins with the mark of advertising, in composed or decomposed letters, of which the mark has seven. No more of a
    /// text is compared, since that takes long for some.
    fileprivate var isMarked: Bool {
        guard let text else { return false }
        return String(String.UnicodeScalarView(text.unicodeScalars.prefix(8))).hasPrefix(PushMessage.advertisingMark)
    }
}
