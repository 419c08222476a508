import KakaoAPI
import Locking

/// The images that were uploaded for messages.
final class ImageUploads: Sendable {
    /// The limit that Kakao documents for the images of messages.
    private static let maximumBytes = 5 << 20
    private static let maximumImages = 10_000

    private struct State {
        var count = 0
        var images: [SharedImage] = []
    }

    private let state = Locked(State())

    var count: Int { state.withLock(\.count) }

    var images: [SharedImage] { state.withLock(\.images) }

    /// Stores an image and returns its address, which depends on the number of earlier uploads.
    func add(_ call: UploadImage, _ files: [UploadedFile]) throws(KakaoRefusal) -> SharedImage {
        guard let file = files.first else { throw .badParameter("The Parameter [file] cannot be null.") }
        guard files.count == 1 else { throw .tooManyImages }
        let header = try file.imageHeader(maximumBytes: Self.maximumBytes)
        let scheme = call.secureResource == true ? "https" : "http"
        return state.withLock { state in
            state.count += 1
            let image = SharedImage(
                url: "\(scheme)://k.kakaocdn.net/14/dn/upload\(state.count)/original.\(header.format.fileExtension)",
                contentType: header.format.contentType,
                length: Int64(file.bytes.count),
                width: Int64(header.width),
                height: Int64(header.height)
            )
            if state.images.count < Self.maximumImages { state.images.append(image) }
            return image
        }
    }

    func remove(_ url: String) {
        state.withLock { state in state.images.removeAll { $0.url == url } }
    }
}
