package import Endpoints
package import FoundationEssentials
import HTTPServer
import HTTPTypes
package import JSON

/// The images that templates can refer to, on one event loop.
package protocol ImageSource: Sendable {
    /// Returns the address of an image at Kakao, which remains valid for at least ten days; `nil` for an unknown image.
    ///
    /// - Throws: ``Problem`` if the image must be uploaded again and cannot be: `not-configured`, `refused-by-kakao`,
    ///   `kakao-unavailable`, `bad-gateway`, `too-many-uploads`.
    func url(of id: UUID) async throws -> String?
}

/// References to stored images in templates, such as `"image_url": "image:01926f3e-7a5b-7c3d-9e1f-0a2b3c4d5e6f"`, and their replacement by
/// addresses at Kakao, on one event loop.
package struct ImageReferences: Sendable {
    /// The beginning of a reference. The image's id follows.
    package static let prefix = "image:"
    /// The members of a template that are addresses of images.
    private static let members: Set<String> = ["image_url", "profile_image_url", "title_image_url"]

    private let source: any ImageSource

    init(_ source: any ImageSource) {
        self.source = source
    }

    /// Returns a template in which the address at Kakao stands in place of each reference.
    ///
    /// - Throws: ``Problem``: 400 for a reference to an unknown image, with its JSON path; those of
    ///   ``ImageSource/url(of:)``.
    package func resolve(_ template: JSONValue) async throws -> JSONValue {
        var urls: [UUID: String] = [:]
        for (path, text) in Self.references(in: template, "$") {
            guard let id = Self.id(text) else {
                throw Self.problem(path, "is not the id of an image. Use image:ID with an id of POST /v1/images.")
            }
            guard urls[id] == nil else { continue }
            guard let url = try await source.url(of: id) else {
                throw Self.problem(path, "names an unknown image. Upload it with POST /v1/images first.")
            }
            urls[id] = url
        }
        return urls.isEmpty ? template : Self.replacing(template, urls)
    }

    private static func problem(_ path: String, _ reason: String) -> Problem {
        Problem(of: .unknownImage, "\(path) \(reason)", members: ["path": .string(path)])
    }

    /// Returns the id of a reference; `nil` for another text.
    private static func id(_ text: String) -> UUID? {
        guard text.hasPrefix(prefix) else { return nil }
        return UUID(uuidString: String(text.dropFirst(prefix.count)))
    }

    /// Returns the references in a value, with their places as JSON paths (RFC 9535).
    private static func references(in value: JSONValue, _ path: String) -> [(path: String, text: String)] {
        switch value {
        case .null, .bool, .number, .string:
            return []
        case .array(let elements):
            return elements.enumerated().flatMap { references(in: $1, "\(path)[\($0)]") }
        case .object(let object):
            return object.members.flatMap { name, value in
                if ImageReferences.members.contains(name), let text = value.string, text.hasPrefix(prefix) {
                    return [("\(path).\(name)", text)]
                }
                return references(in: value, "\(path)\(segment(name))")
            }
        }
    }

    /// Returns the segment of a JSON path that selects a member.
    private static func segment(_ name: String) -> String {
        let isPlain =
            !name.isEmpty && name.utf8.allSatisfy { $0 == 0x5F || (0x61...0x7A).contains($0 | 0x20) }
        return isPlain ? ".\(name)" : "[\(JSONValue.string(name).description)]"
    }

    private static func replacing(_ value: JSONValue, _ urls: [UUID: String]) -> JSONValue {
        switch value {
        case .null, .bool, .number, .string:
            return value
        case .array(let elements):
            return .array(elements.map { replacing($0, urls) })
        case .object(var object):
            for (name, value) in object.members {
                if ImageReferences.members.contains(name), let url = value.string.flatMap(id).flatMap({ urls[$0] }) {
                    object[name] = .string(url)
                } else {
                    object[name] = replacing(value, urls)
                }
            }
            return .object(object)
        }
    }
}

extension ProblemKind {
    package static let unknownImage = ProblemKind(
        .badRequest,
        "unknown-image",
        "A template refers to an image that is not kept here."
    )
}
