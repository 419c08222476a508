import HTTPTypes

extension Request {
    /// Whether the client accepts HTML, as a browser does when it opens an address. `curl` and other programs accept `*/*`.
    package var acceptsHTML: Bool { self[.accept]?.contains("text/html") == true }

    /// Returns whether `If-None-Match` names an entity tag, so that the client has the response already.
    package func names(_ entityTag: String) -> Bool {
        (self[.ifNoneMatch] ?? "").split(separator: ",").contains { tag in
            // The weak comparison of RFC 9110 §8.8.3.2.
            let tag = tag.drop { $0 == " " }.prefix { $0 != " " }
            return tag == "*" || tag == entityTag || tag == "W/\(entityTag)"
        }
    }
}
