/// The format and the size of an image as its content shows them, whatever its name or its sender says.
package struct ImageHeader: Equatable, Sendable {
    /// The formats that Kakao accepts.
    package enum Format: String, CaseIterable, Sendable {
        case jpeg = "image/jpeg"
        case png = "image/png"
        case gif = "image/gif"

        /// The media type.
        package var contentType: String { rawValue }

        package var fileExtension: String {
            switch self {
            case .jpeg: "jpg"
            case .png: "png"
            case .gif: "gif"
            }
        }
    }

    /// The reason why a content is not an image that Kakao accepts, as a sentence.
    package struct Invalid: Error, Equatable {
        package let reason: String

        fileprivate init(_ reason: String) {
            self.reason = reason
        }
    }

    package let format: Format
    /// In pixels.
    package let width: Int
    /// In pixels.
    package let height: Int

    /// Reads the beginning of an image.
    ///
    /// - Throws: ``Invalid`` for another format, and for an image without a size. The rest of the image is not checked.
    package init(_ bytes: [UInt8]) throws(Invalid) {
        let size: (width: Int, height: Int)?
        if bytes.starts(with: [0xFF, 0xD8, 0xFF]) {
            format = .jpeg
            size = Self.sizeOfJPEG(bytes)
        } else if bytes.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) {
            format = .png
            size = Self.sizeOfPNG(bytes)
        } else if bytes.starts(with: "GIF87a".utf8) || bytes.starts(with: "GIF89a".utf8) {
            format = .gif
            size = Self.sizeOfGIF(bytes)
        } else {
            throw Invalid(Self.reason(bytes))
        }
        guard let size, size.width > 0, size.height > 0 else {
            throw Invalid("The file begins as \(format.contentType), but it is damaged: it does not state its size.")
        }
        (width, height) = size
    }

    // MARK: Formats

    /// Reads the size in the first chunk (PNG §11.2.1).
    private static func sizeOfPNG(_ bytes: [UInt8]) -> (width: Int, height: Int)? {
        guard bytes.count >= 24, bytes[12..<16].elementsEqual("IHDR".utf8) else { return nil }
        let (width, height) = (number(bytes[16..<20]), number(bytes[20..<24]))
        return width <= Int(Int32.max) && height <= Int(Int32.max) ? (width, height) : nil
    }

    /// Reads the size of the screen (GIF89a §18).
    private static func sizeOfGIF(_ bytes: [UInt8]) -> (width: Int, height: Int)? {
        guard bytes.count >= 10 else { return nil }
        return (number(bytes[6..<8].reversed()), number(bytes[8..<10].reversed()))
    }

    /// Reads the size in the frame header, which follows other segments (ITU T.81 §B.2).
    private static func sizeOfJPEG(_ bytes: [UInt8]) -> (width: Int, height: Int)? {
        var place = 2
        while place + 1 < bytes.count, bytes[place] == 0xFF {
            let marker = bytes[place + 1]
            switch marker {
            // A fill byte.
            case 0xFF:
                place += 1
            // Markers without a segment.
            case 0x01, 0xD0...0xD7:
                place += 2
            // The frame headers: all but those of tables, which share their range.
            case 0xC0...0xC3, 0xC5...0xC7, 0xC9...0xCB, 0xCD...0xCF:
                guard place + 9 <= bytes.count else { return nil }
                return (number(bytes[place + 7..<place + 9]), number(bytes[place + 5..<place + 7]))
            // The image's data or its end, before a frame header.
            case 0x00, 0xD8, 0xD9, 0xDA:
                return nil
            default:
                guard place + 4 <= bytes.count else { return nil }
                let length = number(bytes[place + 2..<place + 4])
                guard length >= 2 else { return nil }
                place += 2 + length
            }
        }
        return nil
    }

    /// Returns the number with these bytes, the most significant one first.
    private static func number(_ bytes: some Sequence<UInt8>) -> Int {
        bytes.reduce(0) { $0 << 8 | Int($1) }
    }

    // MARK: Reasons

    /// Returns why a content is none of the formats, with the name of the one that it is, if it is a common one.
    private static func reason(_ bytes: [UInt8]) -> String {
        guard !bytes.isEmpty else { return "The file is empty." }
        let name: String? =
            if bytes.starts(with: "RIFF".utf8), bytes.dropFirst(8).starts(with: "WEBP".utf8) {
                "WebP"
            } else if bytes.dropFirst(4).starts(with: "ftyp".utf8) {
                "HEIC, AVIF or a video"
            } else if bytes.starts(with: "BM".utf8) {
                "BMP"
            } else if bytes.starts(with: [0x49, 0x49, 0x2A, 0x00]) || bytes.starts(with: [0x4D, 0x4D, 0x00, 0x2A]) {
                "TIFF"
            } else if bytes.starts(with: "%PDF".utf8) {
                "PDF"
            } else if bytes.drop(while: { $0 <= 0x20 }).first == UInt8(ascii: "<") {
                "SVG or HTML"
            } else {
                nil
            }
        let found = name.map { "The file is \($0)" } ?? "The file is not an image that this server knows"
        return "\(found). Kakao accepts JPEG, PNG and GIF, which are recognized by their content."
    }
}
