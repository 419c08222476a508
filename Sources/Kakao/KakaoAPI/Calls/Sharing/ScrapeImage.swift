import HTTPTypes
import Schemas

/// Copies an image of the web to Kakao, for messages. (Kakao, "Kakao Link: iOS", "Scraping image".)
package struct ScrapeImage: KakaoCall {
    package typealias Answer = SharedImage

    package let imageURL: String
    /// Whether the address at Kakao is https.
    package let secureResource: Bool?

    package static let operation = KakaoOperation<Self>(
        "image_scrap",
        [.post],
        "/v2/api/talk/message/image/scrap",
        .sharing,
        [.appKey],
        // A second copy does no harm.
        isIdempotent: true,
        "Copies an image of the web to Kakao.",
        parameters: Record(
            .required("image_url", \.imageURL, .text(1...2048), "The address of the image."),
            .optional(
                "secure_resource",
                \.secureResource,
                .boolean,
                "Whether the address at Kakao is https; `true` if it is absent."
            ),
            make: { Self(imageURL: $0, secureResource: $1 ?? true) }
        ),
        answer: SharedImage.answer
    )
}
