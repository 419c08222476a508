import Endpoints
package import HTTPServer
import HTTPTypes
import Net

/// Where the operator's page may appear, and from where its requests may come.
package enum PageOrigin {
    /// The names of this machine under which a browser may reach it without TLS. A page of another name whose address is set to this
    /// machine's (DNS rebinding) is none of them.
    private static let localNames: Set<Substring> = ["localhost", "127.0.0.1", "[::1]"]

    /// - Throws: ``Problem`` 403 if the browser has reached this server neither over TLS nor on the same machine.
    package static func checkPlace(_ request: Request) throws {
        guard !isEncrypted(request), !isLocal(request) else { return }
        throw Problem(
            of: .insecurePage,
            """
            Operators sign in over HTTPS, or on the machine of the server at localhost or 127.0.0.1. Behind a proxy that ends TLS, set \
            http.trusted_proxies, and let it send X-Forwarded-Proto.
            """
        )
    }

    /// Checks that a request with the cookie, or one that signs in, comes from the page itself: neither from a page of another site
    /// (CSRF) nor from a link there.
    ///
    /// - Throws: ``Problem`` 403.
    package static func checkSender(_ request: Request) throws {
        if let site = request[.fetchSite] {
            // The address bar sends "none", and only for pages.
            if site == "same-origin" || site == "none" && request.method == .get { return }
        } else if let origin = request[.origin] {
            let host = origin.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false).dropFirst(2).first
            if let host, host.lowercased() == request[.host]?.lowercased() { return }
        } else if request.method == .get {
            // Browsers send the cookie to no request that another site causes: SameSite=Strict.
            return
        }
        throw Problem(
            of: .foreignOrigin,
            "Only the page itself signs in, and calls with the cookie of a session. A program sends an operator key as Authorization: Bearer KEY."
        )
    }

    private static func isEncrypted(_ request: Request) -> Bool {
        if request.isSecure { return true }
        guard request.isForwarded else { return false }
        // The last value is that of the trusted proxy; a client may have written those before.
        let values = (request[.forwardedProtocol] ?? "").split(separator: ",")
        return values.last.map { $0.trimmingSpaces().lowercased() == "https" } ?? false
    }

    private static func isLocal(_ request: Request) -> Bool {
        guard request.remoteAddress.isLoopback, let host = request[.host]?.lowercased() else { return false }
        // A proxy on this machine may call under a local name, for browsers anywhere.
        guard request[.forwardedFor] == nil, request[.forwarded] == nil, request[.forwardedProtocol] == nil else {
            return false
        }
        let end = host.lastIndex(of: ":").flatMap { host[$0...].contains("]") ? nil : $0 } ?? host.endIndex
        return localNames.contains(host[..<end])
    }
}

extension HTTPField.Name {
    fileprivate static let host = unvalidated("Host")
    /// The relation of the page that sends a request to this server (Fetch Metadata).
    fileprivate static let fetchSite = unvalidated("Sec-Fetch-Site")
    /// The protocol between the client and a proxy.
    fileprivate static let forwardedProtocol = unvalidated("X-Forwarded-Proto")
}
