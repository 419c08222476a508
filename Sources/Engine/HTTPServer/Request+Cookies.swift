import HTTPTypes

extension Request {
    /// The cookies of the request, in the order of the browser, which sends the oldest first (RFC 6265 §5.4).
    package var cookies: [(name: Substring, value: Substring)] {
        // Several fields are joined with commas, which no cookie of this server contains.
        (self[.cookie] ?? "").utf8.split { $0 == UInt8(ascii: ";") || $0 == UInt8(ascii: ",") }.compactMap { cookie in
            let cookie = cookie.drop { $0 == UInt8(ascii: " ") }
            guard let equals = cookie.firstIndex(of: UInt8(ascii: "=")) else { return nil }
            return (Substring(cookie[..<equals]), Substring(cookie[cookie.index(after: equals)...]))
        }
    }
}
