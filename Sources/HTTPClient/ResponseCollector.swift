/// Puts a response together from the header lines and body bytes that libcurl hands over, within bounds.
struct ResponseCollector {
    /// As many header fields, and as many bytes of them, as any server has reason to send.
    private static let maximumFields = 128
    private static let maximumHeadBytes = 64 * 1024

    private let maximumBodyBytes: Int
    private var headBytes = 0
    private var fieldCount = 0
    private var isHeadComplete = false

    private(set) var head: [UInt8] = []
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
            head.removeAll(keepingCapacity: true)
            (headBytes, fieldCount) = (0, 0)
            isHeadComplete = false
        }
        // Trailer fields, too: a host that goes on with them would never be done.
        headBytes += line.count
        guard headBytes <= Self.maximumHeadBytes, fieldCount < Self.maximumFields else {
            isTooLarge = true
            return false
        }
        if line.first == UInt8(ascii: "\r") || line.first == UInt8(ascii: "\n") {
            isHeadComplete = true
        } else if !isHeadComplete, line.contains(UInt8(ascii: ":")) {
            fieldCount += 1
            head.append(contentsOf: line)
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
}
