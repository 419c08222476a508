import KakaoAPI
import Net

/// An image that was uploaded for a story.
struct StoryImage: Sendable, Equatable {
    private static let host = "https://story.kakaocdn.net"

    /// The path that the upload returns: `/dn/7/1/img.png?width=600&height=400`.
    let path: String
    /// The path without the extension and the query.
    private let name: Substring
    /// In pixels.
    private let width: Int
    /// In pixels.
    private let height: Int

    /// - Parameter number: The number of the user's uploads, with this one.
    init(_ header: ImageHeader, of userID: Int64, number: Int) {
        let name = "/dn/\(userID)/\(number)/img"
        path = "\(name).\(header.format.fileExtension)?width=\(header.width)&height=\(header.height)"
        self.name = name[...]
        width = header.width
        height = header.height
    }

    /// Reads a path; `nil` if it does not end in an extension and a size.
    init?(path: String) {
        let parts = path.split(separator: "?", maxSplits: 1)
        guard path.hasPrefix("/"), parts.count == 2, let dot = parts[0].lastIndex(of: "."),
            let query = try? FormURLEncoded.parse(Array(parts[1].utf8)[...])
        else { return nil }
        func pixels(_ name: String) -> Int? {
            query.first { $0.name == name }.flatMap { Int($0.value) }.flatMap { (1...100_000).contains($0) ? $0 : nil }
        }
        guard let width = pixels("width"), let height = pixels("height") else { return nil }
        self.path = path
        name = parts[0][..<dot]
        self.width = width
        self.height = height
    }

    /// The addresses of the image in Kakao's sizes.
    var media: Story.Media {
        func scaled(_ suffix: String, to width: Int) -> String {
            "\(Self.host)\(name)_\(suffix).jpg?width=\(width)&height=\(max(1, height * width / self.width))"
        }
        return Story.Media(
            original: Self.host + path,
            xlarge: scaled("xl", to: 1280),
            large: scaled("l", to: 720),
            medium: scaled("m", to: 240),
            small: scaled("s", to: 160)
        )
    }
}
