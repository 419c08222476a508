package import HTTPClient
import HTTPTypes

/// A file for a call that uploads files.
package struct KakaoUpload: Sendable {
    /// The name of the file. Kakao ignores it, apart from its extension.
    package let fileName: String
    /// The media type: `image/png`.
    package let contentType: String
    package let content: HTTPClientUpload

    package init(fileName: String, contentType: String, content: HTTPClientUpload) {
        self.fileName = fileName
        self.contentType = contentType
        self.content = content
    }

    /// A file that is in memory.
    package init(fileName: String, contentType: String, bytes: [UInt8]) {
        self.init(
            fileName: fileName,
            contentType: contentType,
            content: HTTPClientUpload(length: bytes.count) { bytes }
        )
    }
}

/// A form of several parts, `multipart/form-data` (RFC 7578), whose files are sent while they are read.
struct MultipartForm {
    private let boundary: String
    /// The encoded fields. The files follow in ``rest``, each with its head.
    private let start: [UInt8]
    private let rest: HTTPClientUpload

    init(fields: [(name: String, text: String)], _ part: String, _ uploads: [KakaoUpload]) {
        // The probability that random text occurs in a file is negligible (RFC 2046 §5.1.1).
        let boundary =
            "kakao-push-server-" + String(UInt64.random(in: .min ... .max), radix: 16)
            + String(UInt64.random(in: .min ... .max), radix: 16)
        var start = ""
        for (name, text) in fields {
            start += "--\(boundary)\r\nContent-Disposition: form-data; name=\"\(name)\"\r\n\r\n\(text)\r\n"
        }
        let heads = uploads.enumerated().map { index, upload in
            let end = index == 0 ? "" : "\r\n"
            return Array(
                """
                \(end)--\(boundary)\r
                Content-Disposition: form-data; name="\(part)"; filename="\(Self.escaped(upload.fileName))"\r
                Content-Type: \(Self.escaped(upload.contentType))\r
                \r\n
                """.utf8
            )
        }
        let end = Array("\(uploads.isEmpty ? "" : "\r\n")--\(boundary)--\r\n".utf8)
        self.boundary = boundary
        self.start = Array(start.utf8)
        let pieces = Pieces(heads: heads, files: uploads.map(\.content), end: end)
        let length = heads.reduce(end.count) { $0 + $1.count } + uploads.reduce(0) { $0 + $1.content.length }
        rest = HTTPClientUpload(length: length) { try await pieces.next() }
    }

    /// Makes this form the body of a request.
    func add(to request: inout HTTPClientRequest) {
        request.headerFields[.contentType] = "multipart/form-data; boundary=\(boundary)"
        request.body = start
        request.upload = rest
    }

    /// Returns a text as it stands in a header field of a part, where quotes and line ends are escaped (WHATWG HTML,
    /// "Multipart form data").
    private static func escaped(_ text: String) -> String {
        // By Unicode scalars: CR LF is one character.
        text.unicodeScalars.reduce(into: "") { escaped, scalar in
            switch scalar {
            case "\"": escaped += "%22"
            case "\r": escaped += "%0D"
            case "\n": escaped += "%0A"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
    }

    /// The pieces of the body, in order.
    private actor Pieces {
        private var heads: ArraySlice<[UInt8]>
        private var files: ArraySlice<HTTPClientUpload>
        private let end: [UInt8]
        private var file: HTTPClientUpload?
        private var bytesLeft = 0

        init(heads: [[UInt8]], files: [HTTPClientUpload], end: [UInt8]) {
            self.heads = heads[...]
            self.files = files[...]
            self.end = end
        }

        func next() async throws -> [UInt8] {
            if let file, bytesLeft > 0 {
                let piece = try await file.next()
                bytesLeft -= piece.count
                // A file with another length than it declared would damage the form. An empty piece ends the request.
                return bytesLeft >= 0 ? piece : []
            }
            guard let head = heads.popFirst(), let next = files.popFirst() else { return end }
            (file, bytesLeft) = (next, next.length)
            return head
        }
    }
}
