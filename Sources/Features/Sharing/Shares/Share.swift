import Endpoints
import FoundationEssentials
import JSON
import Schemas

/// A share: arguments that were signed for a message, and the links that the message leads to.
struct Share: Sendable {
    let id: ShareID
    let campaign: String?
    let templateID: Int64?
    let args: [String: String]
    let links: [String]
    let expiresAt: Date
}

/// A share with the numbers of what it led to.
struct CountedShare: Sendable {
    let id: ShareID
    let campaign: String?
    let templateID: Int64?
    /// A JSON object of texts.
    let args: [UInt8]
    let links: [String]
    let createdAt: Date
    let expiresAt: Date
    /// A JSON object of numbers by chat type.
    let arrivals: [UInt8]
    let landings: Int64
    /// A JSON object of numbers by event.
    let conversions: [UInt8]

    static let shape = Shape<CountedShare>(
        "Share",
        [
            .member("id", .shareID, "The id, which sorts by the time of creation.", \.id),
            .nullable("campaign", .text, "The name for shares that belong together.", \.campaign),
            .nullable("template_id", Kind<Int64>.integer(0...Int64.max), "The custom template.", \.templateID),
            .member("args", .objectText, "The custom arguments.") { JSONFragment($0.args) },
            .array("links", .text, "The addresses that the share's landing addresses lead to.", \.links),
            .member("created_at", .time, "When the share was created.", \.createdAt),
            .member("expires_at", .time, "When the signature of the arguments expires.", \.expiresAt),
            .member("arrivals", .objectText, "The chat rooms that messages arrived in, by chat type.") {
                JSONFragment($0.arrivals)
            },
            .member("landings", .count, "The visits of the share's landing addresses.", \.landings),
            .member("conversions", .objectText, "The users who were reported as converted, by event.") {
                JSONFragment($0.conversions)
            },
        ]
    )
}
