import HTTPTypes
import Schemas

/// Deletes an image at Kakao. (Names as in Kakao's JavaScript SDK, `Kakao.Share.deleteImage`.)
package struct DeleteImage: KakaoCall {
    package typealias Answer = Void

    package let imageURL: String

    package static let operation = KakaoOperation<Self>(
        "image_delete",
        [.delete],
        "/v2/api/talk/message/image/delete",
        .sharing,
        [.appKey],
        "Deletes an image at Kakao.",
        parameters: Record(
            .required("image_url", \.imageURL, .text(1...2048), "The address of the image at Kakao."),
            make: Self.init
        ),
        answer: .empty
    )
}
