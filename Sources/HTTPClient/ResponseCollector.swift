internal import HTTPTypes

/// Puts a response together from the header lines and body bytes that libcurl hands over, within bounds.
struct ResponseCollector {
    /// As many header fields, and as many bytes of them, as any server has reason to send.
    private static let maximumFields = 128
    private static let maximumHeadBytes = 64 * 1024

    private let maximumBodyBytes: Int
    private var headBytes = 0
    private var isHeadComplete = false

    private(set) var headerFields = HTTPFields()
    private(set) var body: [UInt8] = []
    /// A bound was crossed: the transfer has been told to stop.
    private(set) var isTooLarge = false

    init(maximumBodyBytes: Int) {
        self.maximumBodyBytes = maximumBodyBytes
    }

    /// Takes one line of the head, with its line end. Returns whether to go on.
    ///
    /// An interim response (1xx) is a head of its own; the next status line makes it forgotten. Lines after the head of
    /// the final response are trailer fields, which nobody here asks for.
    mutating func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        if line.starts(with: "HTTP/".utf8) {
            headerFields = HTTPFields()
            headBytes = 0
            isHeadComplete = false
        }
        headBytes += line.count
        guard headBytes <= Self.maximumHeadBytes, headerFields.count < Self.maximumFields else {
            isTooLarge = true
            return false
        }
        let text = Self.trimmed(line[...])
        if text.isEmpty {
            isHeadComplete = true
        } else if !isHeadComplete, let colon = text.firstIndex(of: UInt8(ascii: ":")),
            let name = HTTPField.Name(String(decoding: text[..<colon], as: UTF8.self))
        {
            let value = String(decoding: Self.trimmed(text[(colon + 1)...]), as: UTF8.self)
            headerFields.append(HTTPField(name: name, value: value))
        }
        return true
    }

    /// Takes a part of the body. Returns whether to go on.
    mutating func receiveBody(_ part: UnsafeRawBufferPointer) -> Bool {
        guard part.count <= maximumBodyBytes - body.count else {
            isTooLarge = true
            return false
        }
        body.append(contentsOf: part)
        return true
    }

    /// Without white space and line ends at either end.
    private static func trimmed(_ text: Slice<UnsafeRawBufferPointer>) -> Slice<UnsafeRawBufferPointer> {
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || (0x09...0x0D).contains($0) }
        guard let first = text.firstIndex(where: { !isSpace($0) }), let last = text.lastIndex(where: { !isSpace($0) })
        else {
            return text[text.endIndex...]
        }
        return text[first...last]
    }
}
