package import Endpoints
import HTTPServer
import HTTPTypes
package import KakaoAPI

extension ImageHeader {
    /// The files that are allowed for messages, in a sentence for the OpenAPI document.
    package static let allowed = allowed(upTo: "images.max_bytes")

    /// Returns the allowed files, in a sentence for the OpenAPI document.
    ///
    /// - Parameter setting: The setting that limits their size.
    package static func allowed(upTo setting: String) -> String {
        "Each file is a JPEG, PNG or GIF of at most `\(setting)`."
    }

    /// Reads the beginning of a file.
    ///
    /// - Throws: ``Problem`` 400 for a file that is not an image that Kakao accepts.
    package init(_ file: ReceivedFile) throws {
        do throws(ImageHeader.Invalid) {
            try self.init(file.bytes)
        } catch {
            throw Problem(of: .invalidImage, error.reason)
        }
    }
}

extension KakaoUpload {
    /// An image as it was received. Its media type is that of its content.
    ///
    /// - Throws: ``Problem`` 400 for a file that is not an image that Kakao accepts.
    package init(_ file: ReceivedFile) throws {
        self.init(try ImageHeader(file).format, file.bytes)
    }

    /// An image. Its name does not tell Kakao anything.
    package init(_ format: ImageHeader.Format, _ bytes: [UInt8]) {
        self.init(fileName: "image.\(format.fileExtension)", contentType: format.contentType, bytes: bytes)
    }
}

extension ProblemKind {
    package static let invalidImage = ProblemKind(
        .badRequest,
        "invalid-image",
        "The file is not a JPEG, PNG or GIF."
    )
}
