import Schemas

/// An image at Kakao, for messages. Kakao deletes it after 20 days. (Kakao, "Kakao Link: iOS", "Upload image".)
package struct SharedImage: Sendable {
    package let url: String
    package let contentType: String?
    /// The size in bytes.
    package let length: Int64
    /// In pixels.
    package let width: Int64
    /// In pixels.
    package let height: Int64

    package init(url: String, contentType: String?, length: Int64, width: Int64, height: Int64) {
        self.url = url
        self.contentType = contentType
        self.length = length
        self.width = width
        self.height = height
    }

    private static let record = Record<SharedImage>(
        .required("url", \.url, .text, "The address of the image at Kakao."),
        .optional("content_type", \.contentType, .text, "The media type."),
        .required("length", \.length, .count, "The size in bytes."),
        .required("width", \.width, .count, "The width in pixels."),
        .required("height", \.height, .count, "The height in pixels."),
        make: SharedImage.init
    )

    private static let infos = Record<SharedImage>(
        .required(
            "original",
            { @Sendable image in image },
            record.kind("SharedImage"),
            "The image as it was uploaded."
        ),
        make: { $0 }
    )

    /// The answer `{"infos":{"original":{…}}}`.
    static let answer = KakaoAnswer.json(
        Record<SharedImage>(
            .required("infos", { @Sendable image in image }, infos.kind("SharedImageInfos"), "The image."),
            make: { $0 }
        )
        .kind("SharedImageAnswer"),
        example: SharedImage(
            url: "https://k.kakaocdn.net/14/dn/btqvVKoiuNh/h0dA9nEGKwPMKKDYQi8aPk/original.jpg",
            contentType: "image/jpeg",
            length: 63_541,
            width: 600,
            height: 600
        )
    )
}
