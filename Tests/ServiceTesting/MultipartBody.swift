/// A form with files, `multipart/form-data`.
package struct MultipartBody {
    private static let boundary = "a-boundary-of-the-tests"

    package let bytes: [UInt8]

    /// - Parameters:
    ///   - files: The name of each file's part, and its content.
    ///   - filesFirst: Whether the files precede the fields.
    package init(fields: [(String, String)] = [], files: [(String, [UInt8])], filesFirst: Bool = false) {
        let texts = fields.map { name, text in Self.part("name=\"\(name)\"", Array(text.utf8)) }
        let contents = files.map { name, bytes in
            Self.part("name=\"\(name)\"; filename=\"a.bin\"\r\nContent-Type: application/octet-stream", bytes)
        }
        bytes =
            Array((filesFirst ? contents + texts : texts + contents).joined()) + Array("--\(Self.boundary)--\r\n".utf8)
    }

    package var type: String { "multipart/form-data; boundary=\(Self.boundary)" }

    private static func part(_ head: String, _ content: [UInt8]) -> [UInt8] {
        Array("--\(boundary)\r\nContent-Disposition: form-data; \(head)\r\n\r\n".utf8) + content + Array("\r\n".utf8)
    }
}
