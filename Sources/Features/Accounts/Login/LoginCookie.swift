import Crypto
import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON

/// A login in progress, which its browser keeps in an encrypted cookie until Kakao returns.
///
/// The cookie binds the login to the browser: a callback with the `state` of another browser has no cookie, so that
/// an attacker cannot log a victim in to the attacker's account (RFC 6749 §10.12). Each login has a cookie of its own, so that
/// several windows can log in at the same time.
struct LoginCookie: Sendable {
    /// The time for which a login may take.
    static let lifetime = Duration.seconds(600)
    /// Only the host that set it gets the cookie, over HTTPS (RFC 6265bis §4.1.3.2).
    private static let prefix = "__Host-kakao-login-"
    /// The limit of a cookie's value in bytes, with which ``maximumLogins`` of them leave room in the head of a request, which has
    /// 16 KiB by default. Browsers keep no cookie of more than 4096 bytes.
    private static let maximumBytes = 3000
    /// The number of logins in progress that a browser keeps. More cookies could exceed the limit of a request's head.
    private static let maximumLogins = 4

    /// `state` towards Kakao, and the end of the cookie's name.
    let id: String
    let nonce: String
    let codeVerifier: String
    let returnTo: String
    /// The service's own `state`.
    let state: String?
    /// The user that must log in; `nil` for any user.
    let userID: Int64?
    let endsAt: Double

    init(returnTo: String, state: String?, userID: Int64?) {
        id = Base64URL.encode(RandomKey.bytes(16))
        nonce = Base64URL.encode(RandomKey.bytes(16))
        codeVerifier = Base64URL.encode(RandomKey.bytes(32))
        self.returnTo = returnTo
        self.state = state
        self.userID = userID
        endsAt = Date().timeIntervalSince1970 + Self.lifetime.inSeconds
    }

    /// The SHA-256 of the verifier, which Kakao compares with it later (RFC 7636 §4.2).
    var codeChallenge: String { Base64URL.encode(SHA256Digest.of(codeVerifier)) }

    /// Returns the header field that sets the cookie; `nil` if the service's address and state are too long for it.
    func header(_ vault: TokenVault) -> String? {
        var json = JSONWriter()
        json.object {
            $0.member("nonce", nonce)
            $0.member("code_verifier", codeVerifier)
            $0.member("return_to", returnTo)
            $0.member("state", state)
            $0.member("user_id", userID)
            $0.member("ends_at", Int64(endsAt))
        }
        let value = Base64URL.encode(vault.seal(json.bytes, for: Self.purpose(id)))
        guard value.utf8.count <= Self.maximumBytes else { return nil }
        return Self.header(id, value, seconds: Int(Self.lifetime.components.seconds))
    }

    /// Returns the header field that deletes the cookie of a login.
    static func deletion(_ id: String) -> String { header(id, "", seconds: 0) }

    /// Reads the cookie of a login. Returns `nil` without one, and for one that has expired or was altered.
    ///
    /// - Parameter id: `state`, as it came back from Kakao.
    init?(_ request: Request, id: String, _ vault: TokenVault) {
        let name = Self.prefix + id
        guard let cookie = request.cookies.first(where: { $0.name == name }),
            let sealed = Base64URL.decode(cookie.value.utf8),
            let bytes = vault.open(sealed, for: Self.purpose(id)),
            let json = try? JSONValue(parsing: bytes, maximumDepth: 2),
            let nonce = json["nonce"]?.string, let codeVerifier = json["code_verifier"]?.string,
            let returnTo = json["return_to"]?.string, let endsAt = json["ends_at"]?.integer,
            Double(endsAt) > Date().timeIntervalSince1970
        else { return nil }
        self.id = id
        self.nonce = nonce
        self.codeVerifier = codeVerifier
        self.returnTo = returnTo
        state = json["state"]?.string
        userID = json["user_id"]?.integer
        self.endsAt = Double(endsAt)
    }

    /// Returns the logins of a browser that are to be given up when it begins another one, the oldest first.
    static func surplus(_ request: Request) -> [String] {
        let ids = request.cookies.filter { $0.name.hasPrefix(prefix) }.map { String($0.name.dropFirst(prefix.count)) }
        return ids.dropLast(maximumLogins - 1).filter { Base64URL.decode($0.utf8) != nil }
    }

    private static func header(_ id: String, _ value: String, seconds: Int) -> String {
        "\(prefix)\(id)=\(value); Max-Age=\(seconds); Path=/; Secure; HttpOnly; SameSite=Lax"
    }

    private static func purpose(_ id: String) -> String { "login cookie \(id)" }
}
