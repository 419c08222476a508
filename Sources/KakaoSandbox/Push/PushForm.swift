internal import HTTPServer
internal import HTTPTypes

/// The parameters of a call: those of the query, followed by those of a form body.
///
/// Kakao reads only form bodies. In a call with a JSON body, all parameters are missing.
struct PushForm {
    private let pairs: [(name: String, value: String)]

    init(_ request: Request) throws(KakaoRefusal) {
        do {
            var pairs = try request.queryItems()
            if request.method == .post, request.contentType == FormURLEncoded.mediaType {
                let body = try FormURLEncoded.parse(request.body[...])
                pairs = pairs.isEmpty ? body : pairs + body
            }
            self.pairs = pairs
        } catch {
            throw .badParameter("the form cannot be read: \(error.message)")
        }
    }

    /// Returns the first value with that name, or `nil`.
    subscript(name: String) -> String? {
        pairs.first { $0.name == name }?.value
    }

    /// Returns a required user id.
    func userID(_ name: String) throws(KakaoRefusal) -> Int64 {
        guard let text = self[name] else { throw .badParameter("\(name) is required") }
        guard let id = UserIDs.parseOne(text) else { throw .badParameter("\(name) must be between 1 and 2^63-1") }
        return id
    }

    /// Returns a list of 1 to 100 user ids; `nil` if there is no parameter with that name.
    func userIDs(_ name: String) throws(KakaoRefusal) -> [Int64]? {
        guard let text = self[name] else { return nil }
        guard let ids = UserIDs.parseList(text), !ids.isEmpty else {
            throw .badParameter("\(name) must be a JSON array of integers between 1 and 2^63-1")
        }
        guard ids.count <= UserIDs.maximumCount else {
            throw .badParameter("\(name) must have at most \(UserIDs.maximumCount) elements")
        }
        return ids
    }

    /// Returns a Boolean; `false` if the parameter is missing. Case is ignored, as in Java, but other words than `true`
    /// and `false` are rejected.
    func bool(_ name: String) throws(KakaoRefusal) -> Bool {
        guard let text = self[name] else { return false }
        switch text.lowercased() {
        case "true": return true
        case "false": return false
        default: throw .badParameter("\(name) must be true or false")
        }
    }
}
