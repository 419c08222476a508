import CEmbedded
import Crypto
import HTTPServer
import HTTPTypes

/// The files of the page, as they are served.
struct PageFiles: Sendable {
    /// A file with its media type.
    struct File: Sendable {
        let bytes: [UInt8]
        let type: String

        init(bytes: [UInt8], type: String) {
            self.bytes = bytes
            self.type = type
        }

        init(page: String) {
            self.init(bytes: Array(page.utf8), type: "text/html; charset=utf-8")
        }
    }

    /// The page itself, whose addresses of other files have the version in them.
    let index: File
    /// The page of a development server.
    let indexWithSandbox: File
    /// The other files by their paths.
    let files: [String: File]
    /// Names the contents of all files: part of their addresses, so that browsers keep them for ever.
    let version: String

    /// The files that are part of the program.
    static let embedded = PageFiles()

    private init() {
        var contents: [(path: String, bytes: [UInt8])] = []
        while let file = embedded_page_file_at(contents.count)?.pointee {
            let bytes = UnsafeBufferPointer(start: file.bytes, count: file.count)
            contents.append((String(cString: file.path), Array(bytes)))
        }
        let all = contents.flatMap { Array($0.path.utf8) + $0.bytes }
        let version = String(SHA256Digest.of(all).hexadecimal.prefix(16))
        var files: [String: File] = [:]
        for (path, bytes) in contents { files[path] = File(bytes: bytes, type: Self.type(of: path)) }
        let page = String(decoding: files.removeValue(forKey: "index.html")?.bytes ?? [], as: UTF8.self)
        let versioned = page.replacing(/(href|src)="([a-z.]+)"/) { "\($0.output.1)=\"\(version)/\($0.output.2)\"" }
        index = File(page: versioned)
        indexWithSandbox = File(page: versioned.replacing("<html ", with: "<html data-sandbox ", maxReplacements: 1))
        self.files = files
        self.version = version
    }

    private static func type(of path: String) -> String {
        switch path.split(separator: ".").last {
        case "js": "text/javascript; charset=utf-8"
        case "css": "text/css; charset=utf-8"
        case "json": "application/json"
        case "svg": "image/svg+xml"
        default: "text/html; charset=utf-8"
        }
    }
}
