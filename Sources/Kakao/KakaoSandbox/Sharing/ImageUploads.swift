import KakaoAPI
import Locking

/// An image that was uploaded for messages.
package struct UploadedImage: Sendable, Equatable {
    /// The address at Kakao, different for each upload.
    package let url: String
    package let contentType: String
    /// The size in bytes.
    package let length: Int
    /// In pixels.
    package let width: Int
    /// In pixels.
    package let height: Int
}

/// The images that were uploaded for messages.
final class ImageUploads: Sendable {
    /// The limit that Kakao documents for the images of messages.
    private static let maximumBytes = 5 << 20
    private static let maximumImages = 10_000

    private struct State {
        var count = 0
        var images: [UploadedImage] = []
    }

    private let state = Locked(State())

    var count: Int { state.withLock(\.count) }

    var images: [UploadedImage] { state.withLock(\.images) }

    /// Stores an image and returns its address, which depends on the number of earlier uploads.
    func add(_ call: UploadImage, _ files: [UploadedFile]) throws(KakaoRefusal) -> SharedImage.Answer {
        guard let file = files.first else { throw .badParameter("The Parameter [file] cannot be null.") }
        guard files.count == 1 else { throw .tooManyImages }
        let header = try file.imageHeader(maximumBytes: Self.maximumBytes)
        let scheme = call.secureResource == true ? "https" : "http"
        let image = state.withLock { state in
            state.count += 1
            let image = UploadedImage(
                url: "\(scheme)://k.kakaocdn.net/14/dn/upload\(state.count)/original.\(header.format.fileExtension)",
                contentType: header.format.contentType,
                length: file.bytes.count,
                width: header.width,
                height: header.height
            )
            if state.images.count < Self.maximumImages { state.images.append(image) }
            return image
        }
        return SharedImage.Answer(
            SharedImage(
                url: image.url,
                contentType: image.contentType,
                length: Int64(image.length),
                width: Int64(image.width),
                height: Int64(image.height)
            )
        )
    }

    func remove(_ url: String) {
        state.withLock { state in state.images.removeAll { $0.url == url } }
    }
}
