import HTTPTypes

extension Request {
    /// The cookies of the request, in the order of the browser, which sends the oldest first (RFC 6265 §5.4).
    package var cookies: [(name: Substring, value: Substring)] {
        // Several fields are joined with commas, which no cookie of this server contains.
        (self[.cookie] ?? "").split { $0 == ";" || $0 == "," }.compactMap { cookie in
            let cookie = cookie.drop { $0 == " " }
            guard let equals = cookie.firstIndex(of: "=") else { return nil }
            return (cookie[..<equals], cookie[cookie.index(after: equals)...])
        }
    }
}
