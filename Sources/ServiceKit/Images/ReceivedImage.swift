internal import HTTPServer
internal import HTTPTypes
package import KakaoAPI

extension ImageHeader {
    /// The allowed files, in a sentence for the OpenAPI document.
    package static let allowed = "Each file is a JPEG, PNG or GIF of at most `images.max_bytes`."

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
