import FoundationEssentials
import KakaoAPI
import TestSupport
import Testing

@Suite struct ImageHeaderTests {
    /// The beginnings of real images of 16 × 16 pixels, up to what states the size.
    private static let images: [(text: String, format: ImageHeader.Format, bytes: Int)] = [
        ("iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAMAAAAoLQ9TAAAAIGNIUg==", .png, 24),
        ("R0lGODlhEAAQAPZkAOu7GOu+IfPBGvrHGf3LG//MHOvCKv/PI//PJA==", .gif, 10),
        (
            "/9j/4AAQSkZJRgABAQEAAQABAAD/2wBDAAMCAgICAgMCAgIDAwMDBAYEBAQEBAgGBgUGCQgKCgkICQkKDA8MCgsOCwkJDRENDg8QEBEQ"
                + "CgwSExIQEw8QEBD/2wBDAQMDAwQDBAgEBAgQCwkLEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ"
                + "EBD/wAARCAAQABADASIAAhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAABwQ=",
            .jpeg, 167
        ),
    ]

    @Test("The format and the size of a real image are those of its content; one that is cut off is damaged")
    func real() throws {
        for (text, format, length) in Self.images {
            let bytes = Array(try #require(Data(base64Encoded: text)))
            let header = try ImageHeader(bytes)
            #expect(header.format == format)
            #expect([header.width, header.height] == [16, 16])
            #expect(try ImageHeader(Array(bytes[..<length])) == header)
            for end in 0..<length {
                let reason = Self.reason(Array(bytes[..<end]))
                #expect(reason != nil)
                if end >= 8 { #expect(reason?.contains("\(format.contentType), but it is damaged") == true) }
            }
        }
    }

    @Test("A JPEG states its size in any of its frame headers, after segments and fill bytes")
    func jpeg() throws {
        for marker: UInt8 in [0xC0, 0xC1, 0xC2, 0xC9, 0xCF] {
            let bytes: [UInt8] = [
                0xFF, 0xD8, 0xFF, 0xE1, 0, 4, 0xFF, 0xC0, 0xFF, 0xFF, 0xC4, 0, 2, 0xFF, 0x01, 0xFF, marker, 0, 11, 8, 1,
                0,
                2, 1,
            ]
            let header = try ImageHeader(bytes)
            #expect([header.width, header.height] == [513, 256])
        }
        // A segment without a length, the data before a header, no width.
        for rest: [UInt8] in [
            [0xE0, 0, 1, 0xFF, 0xC0, 0, 11, 8, 0, 1, 0, 1], [0xDA, 0, 2, 0xFF, 0xC0, 0, 11, 8, 0, 1, 0, 1],
            [0xC0, 0, 11, 8, 0, 1, 0, 0], [0xE0, 0xFF, 0xFF], [0xFF], [0xC4, 0, 4, 0, 0, 0xC0],
        ] {
            #expect(Self.reason([0xFF, 0xD8, 0xFF] + rest)?.contains("damaged") == true)
        }
    }

    @Test(
        "Another file is named, so that the caller knows what to convert",
        arguments: [
            ("", "empty"), ("RIFF\u{1}\u{2}\u{3}\u{4}WEBPVP8 ", "WebP"), ("\0\0\0\u{18}ftypheic", "HEIC"),
            ("BM1234", "BMP"), ("II*\0", "TIFF"), ("%PDF-1.7", "PDF"), ("\n <svg>", "SVG"), ("hello", "not an image"),
            ("GIF88a", "not an image"),
        ]
    )
    func others(text: String, name: String) {
        #expect(Self.reason(Array(text.utf8))?.contains(name) == true)
    }

    @Test("Random bytes after the beginning of an image are read without a trap", arguments: 0..<100 as Range<UInt64>)
    func random(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        for start: [UInt8] in [
            [0xFF, 0xD8, 0xFF], [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A], Array("GIF89a".utf8),
        ] {
            let rest = (0..<Int(random.next(upperBound: UInt64(64)))).map { _ -> UInt8 in
                random.next() & 3 == 0 ? 0xFF : UInt8(truncatingIfNeeded: random.next())
            }
            if let header = try? ImageHeader(start + rest) { #expect(header.width > 0 && header.height > 0) }
        }
    }

    private static func reason(_ bytes: [UInt8]) -> String? {
        do throws(ImageHeader.Invalid) {
            _ = try ImageHeader(bytes)
            return nil
        } catch {
            return error.reason
        }
    }
}
