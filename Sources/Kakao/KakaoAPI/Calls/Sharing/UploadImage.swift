import HTTPTypes
import Schemas

/// Uploads an image to Kakao, for messages. (Kakao, "Kakao Link: iOS", "Upload image".)
package struct UploadImage: KakaoCall {
    package typealias Answer = SharedImage

    /// Whether the address at Kakao is https.
    package let secureResource: Bool?

    package init(secureResource: Bool? = true) {
        self.secureResource = secureResource
    }

    package static let operation = KakaoOperation<Self>(
        "image_upload",
        [.post],
        "/v2/api/talk/message/image/upload",
        .sharing,
        [.appKey],
        // A second copy does no harm.
        isIdempotent: true,
        "Uploads an image to Kakao.",
        parameters: Record(
            .optional(
                "secure_resource",
                \.secureResource,
                .boolean,
                "Whether the address at Kakao is https; `true` if it is absent."
            ),
            make: { Self(secureResource: $0 ?? true) }
        ),
        answer: SharedImage.answer,
        uploadPart: "file",
        timeout: timeout
    )

    /// The time limit of the call. The lease of an upload must last longer.
    package static let timeout = Duration.seconds(30)
}
