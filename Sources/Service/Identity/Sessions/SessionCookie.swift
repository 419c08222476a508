import Crypto
package import HTTPServer

/// The cookie of a session of the operator's page. The server stores only its SHA-256.
package struct SessionCookie: Sendable {
    /// The prefix lets only this host set the cookie, over HTTPS or on this machine (RFC 6265bis §4.1.3.2).
    private static let name = "__Host-push-session"
    /// The time from signing in until the session ends.
    package static let lifetime = Duration.seconds(12 * 3600)

    /// The SHA-256 of the cookie's value.
    let digest: [UInt8]

    /// `nil` for a request without the cookie.
    init?(_ request: Request) {
        guard let value = request.cookies.first(where: { $0.name == Self.name })?.value else { return nil }
        digest = SHA256Digest.of(String(value))
    }

    /// Returns the header field that sets the cookie.
    ///
    /// - Parameter secret: Its value.
    package static func header(_ secret: String) -> String {
        field(secret, seconds: lifetime.components.seconds)
    }

    /// The header field that deletes the cookie.
    package static var deletion: String { field("", seconds: 0) }

    private static func field(_ value: String, seconds: Int64) -> String {
        "\(name)=\(value); Max-Age=\(seconds); Path=/; Secure; HttpOnly; SameSite=Strict"
    }
}
