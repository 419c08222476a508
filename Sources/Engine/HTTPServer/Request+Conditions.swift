import HTTPTypes

extension Request {
    /// Whether the client accepts HTML, as a browser does when it opens an address. `curl` and other programs accept `*/*`.
    package var acceptsHTML: Bool { self[.accept]?.contains("text/html") == true }

    /// Returns whether the client accepts a response that is so many seconds old: `max-age` in `Cache-Control` (RFC 9111 §5.2.1.1).
    package func acceptsAge(ofSeconds seconds: Int) -> Bool {
        let directives = (self[.cacheControl] ?? "").lowercased().split { $0 == "," || $0 == " " }
        guard !directives.contains("no-cache"), let maxAge = directives.first(where: { $0.hasPrefix("max-age=") })
        else { return false }
        return Int(maxAge.dropFirst("max-age=".count)).map { $0 >= seconds } ?? false
    }

    /// Returns whether `If-None-Match` names an entity tag, so that the client has the response already.
    package func names(_ entityTag: String) -> Bool {
        (self[.ifNoneMatch] ?? "").split(separator: ",").contains { tag in
            // The weak comparison of RFC 9110 §8.8.3.2.
            let tag = tag.drop { $0 == " " }.prefix { $0 != " " }
            return tag == "*" || tag == entityTag || tag == "W/\(entityTag)"
        }
    }
}
