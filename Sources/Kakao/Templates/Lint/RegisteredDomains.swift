/// The site domains of an app that are registered at Kakao, which drops links to all others.
package struct RegisteredDomains: Sendable {
    private let names: Set<String>

    /// - Parameter names: Domains such as `example.com` or `example.com:8443`.
    package init(_ names: some Sequence<String>) {
        self.names = Set(names.map { $0.lowercased() })
    }

    /// Whether no domain is known, so that links cannot be compared with them.
    package var isEmpty: Bool { names.isEmpty }

    /// Returns whether `address` is an `http` or `https` address on one of the domains.
    package func contains(address: String) -> Bool {
        WebURL(address).map(contains) ?? false
    }

    func contains(_ url: WebURL) -> Bool {
        names.contains(url.hostAndPort)
    }
}
