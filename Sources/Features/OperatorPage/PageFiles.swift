import CEmbedded
import Crypto
import HTTPServer
import HTTPTypes

/// The files of the page, as they are served.
struct PageFiles: Sendable {
    /// A file with its media type.
    struct File: Sendable {
        /// Bytes in the program itself, which never change, so that all threads may read them. They take no memory until they are read.
        private nonisolated(unsafe) let contents: UnsafeBufferPointer<UInt8>
        let type: String

        fileprivate init(_ file: embedded_file, path: String) {
            contents = UnsafeBufferPointer(start: file.bytes, count: file.count)
            type = PageFiles.type(of: path)
        }

        var bytes: [UInt8] { Array(contents) }
    }

    /// The page itself, whose addresses of other files have the version in them.
    let index: String
    /// The page of a development server.
    let indexWithSandbox: String
    /// The other files by their paths.
    let files: [String: File]
    /// Names the contents of all files: part of their addresses, so that browsers keep them for ever.
    let version: String

    /// The files that are part of the program.
    static let embedded = PageFiles()

    private init() {
        var files: [String: File] = [:]
        var digests: [UInt8] = []
        for index in 0... {
            guard let file = embedded_page_file_at(index)?.pointee else { break }
            let path = String(cString: file.path)
            let contents = File(file, path: path)
            files[path] = contents
            digests += Array(path.utf8) + SHA256Digest.of(contents.bytes)
        }
        let version = String(SHA256Digest.of(digests).hexadecimal.prefix(16))
        var page = String(decoding: files.removeValue(forKey: "index.html")?.bytes ?? [], as: UTF8.self)
        for path in files.keys { page.replace("\"\(path)\"", with: "\"\(version)/\(path)\"") }
        index = page
        indexWithSandbox = page.replacing("<html ", with: "<html data-sandbox ", maxReplacements: 1)
        self.files = files
        self.version = version
    }

    private static func type(of path: String) -> String {
        switch path.split(separator: ".").last {
        case "js": "text/javascript; charset=utf-8"
        case "css": "text/css; charset=utf-8"
        case "json": "application/json"
        case "svg": "image/svg+xml"
        default: "application/octet-stream"
        }
    }
}
