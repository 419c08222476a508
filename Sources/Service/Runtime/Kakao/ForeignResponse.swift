import Endpoints
import FoundationEssentials
import KakaoAPI
import Schemas

/// A response that something else gave in Kakao's place.
package struct ForeignResponse: Sendable {
    let at: Date
    /// The name of the call.
    let call: String
    let response: UnrecognizedResponse

    package static let shape = Shape<ForeignResponse>(
        "ForeignResponse",
        [
            .member("at", .time, "When it came.", \.at),
            .member(
                "call",
                .text,
                "The call that it was the response to, as in the label `api` of the metrics.",
                \.call
            ),
            .member("status", .count, "Its status.") { Int64($0.response.status) },
            .nullable("content_type", .text, "Its media type.", \.response.contentType),
            .nullable("server", .text, "Its header field `Server`.", \.response.server),
            .nullable("via", .text, "Its header field `Via`, which proxies add.", \.response.via),
            .member("text", .text, "The title of its page, or the beginning of its text.", \.response.text),
        ]
    )
}
