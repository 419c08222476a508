import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Net

/// A file of a call that uploads files.
struct UploadedFile: Sendable {
    /// The limit of a call's body, in bytes. Beyond it, the response is 413 as from a gateway.
    static let maximumBodyBytes = 64 << 20

    let fileName: String?
    let contentType: String?
    let bytes: [UInt8]

    /// Reads the beginning of an image.
    ///
    /// - Throws: Error -602 if the file is too large, -911 if it is not an image that Kakao accepts.
    func imageHeader(maximumBytes: Int) throws(KakaoRefusal) -> ImageHeader {
        guard bytes.count <= maximumBytes else {
            throw .error(.imageTooLarge, "exceed max upload size.")
        }
        do throws(ImageHeader.Invalid) {
            return try ImageHeader(bytes)
        } catch {
            throw .error(.unsupportedImageFormat, "not supported image format.")
        }
    }

    /// Returns the files of a form, and adds its fields to the values of the call. Another body has neither.
    static func files(
        in form: [UInt8],
        of request: Request,
        addingFieldsTo values: inout JSONObject
    ) throws(KakaoRefusal) -> [UploadedFile] {
        guard !form.isEmpty, request.contentType == MultipartParser.mediaType else { return [] }
        let events: [MultipartParser.Event]
        do throws(MultipartParser.ParseError) {
            var parser = try MultipartParser(contentType: request[.contentType] ?? "")
            events = try parser.receive(form)
            try parser.finish()
        } catch {
            throw .badParameter("the form cannot be read: \(error.reason)")
        }
        var files: [UploadedFile] = []
        var current: MultipartParser.Part?
        var bytes: [UInt8] = []
        for event in events {
            switch event {
            case .partBegan(let part): (current, bytes) = (part, [])
            case .bytes(let piece): bytes += piece
            case .partEnded:
                guard let current else { continue }
                if let name = current.fileName {
                    files.append(UploadedFile(fileName: name, contentType: current.contentType, bytes: bytes))
                } else {
                    _ = values.append(current.name, .string(String(decoding: bytes, as: UTF8.self)))
                }
            case .ended: break
            }
        }
        return files
    }
}
