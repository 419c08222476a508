import JSON

/// The addresses of other pages in Kakao's responses. They lead to Kakao, where the callers of this server have no
/// credential.
enum PageAddresses {
    private static let members = ["before_url", "after_url"]

    /// Returns a body whose addresses of other pages lead to this server. Another body comes back unchanged.
    ///
    /// - Parameters:
    ///   - publicURL: The URL at which callers reach the server. Without it, the addresses are relative.
    ///   - userID: The user whom an operator has named in the call, and whom the addresses have to name again: Kakao got the user's token
    ///     instead, and leaves the user out of them. `nil` for other calls.
    static func replacing(in body: [UInt8], _ publicURL: String?, of userID: Int64? = nil) -> [UInt8] {
        guard var object = (try? JSONValue(parsing: body))?.object else { return body }
        var isChanged = false
        for member in members {
            guard let address = object[member]?.string, let target = target(of: address) else { continue }
            let separator = target.contains("?") ? "&" : "?"
            let user = userID.map { "\(separator)target_id_type=user_id&target_id=\($0)" } ?? ""
            object[member] = .string((publicURL ?? "") + target + user)
            isChanged = true
        }
        return isChanged ? JSONValue.object(object).bytes() : body
    }

    /// Returns the path and query of an absolute URL.
    private static func target(of address: String) -> Substring? {
        guard address.hasPrefix("http://") || address.hasPrefix("https://"), let end = address.firstRange(of: "://")
        else { return nil }
        let rest = address[end.upperBound...]
        return rest.firstIndex(of: "/").map { rest[$0...] }
    }
}
