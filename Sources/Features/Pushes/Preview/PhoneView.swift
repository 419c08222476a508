import JSON
import KakaoAPI
import Schemas

/// A notification as the phones of one platform show it.
struct PhoneView: Sendable, Equatable {
    /// The part of a phone that shows a notification.
    enum Presenter: String, CaseIterable, Sendable {
        /// The phone's system, which shows the texts as they are in the message.
        case system
        /// The app, which draws what it likes of `custom_field`.
        case app
    }

    /// An address in the message, to which a tap may lead.
    struct Link: Sendable, Equatable {
        /// The place in the message.
        let path: String
        let url: String
    }

    let platform: PushType
    /// The member of the message: `for_apns`.
    let member: String
    /// `nil` if a phone shows nothing.
    var shownBy: Presenter?
    /// The texts. If the app shows them, they are those of `custom_field` with the usual names.
    var title: PhoneText?
    var subtitle: PhoneText?
    var text: PhoneText?
    /// The text with which the notification begins, if that is known: not a guess.
    var beginning: PhoneText?
    var links: [Link] = []
    /// About the size of what Kakao passes on to Apple or Google.
    var payloadBytes = 0

    /// The texts from top to bottom.
    var texts: [PhoneText] { [title, subtitle, text].compactMap(\.self) }

    static let shape = Shape<PhoneView>(
        "PhoneView",
        [
            .member("platform", .pushPlatform, "The platform.", \.platform),
            .member("member", .text, "The member of the message.", \.member),
            .nullable(
                "shown_by",
                Kind<Presenter>.choice,
                "Whether the phone's system shows the notification, or the app draws it from `custom_field`; null if nothing is shown.",
                \.shownBy
            ),
            .nullable(
                "title",
                PhoneText.shape.kind,
                "The title. If the app draws the notification: a text of `custom_field` with a usual name.",
                \.title
            ),
            .nullable("subtitle", PhoneText.shape.kind, "The second line of an iPhone.", \.subtitle),
            .nullable("text", PhoneText.shape.kind, "The text, found as the title is.", \.text),
            .array(
                "links",
                Link.shape.kind,
                "The addresses in the message, to which a tap may lead: at most ten.",
                \.links
            ),
            .member(
                "advertising_mark",
                .boolean,
                "Whether it begins with (광고), as advertising has to.",
                \.isMarkedAsAdvertising
            ),
            .member(
                "payload_bytes",
                .count,
                "About the size of the notification, of which Apple and Google allow 4,096."
            ) {
                Int64($0.payloadBytes)
            },
        ]
    )
}

extension PhoneView.Link {
    fileprivate static let shape = Shape<PhoneView.Link>(
        "PhoneLink",
        [
            .member("path", .text, "Its place in the message.", \.path),
            .member("url", .text, "The address.", \.url),
        ]
    )
}

extension Kind where Value == PushType {
    /// A platform, by the name that devices have here.
    fileprivate static var pushPlatform: Kind {
        Kind(
            text: .choice(PushType.allCases.map { $0.name(in: .v2) }),
            allowed: "one of apns, fcm",
            parse: { PushType(name: $0, version: .v2) },
            format: { $0.name(in: .v2) }
        )
    }
}
