import Net
import Server

/// The address on which a development server and its sandbox listen, and the one by which clients reach them.
struct DevHost {
    /// The numeric address to listen on.
    let address: String
    /// The numeric address in URLs. For a wildcard address it is this machine's in its network.
    let name: String
    /// Whether only this machine reaches the address.
    let isLocal: Bool

    /// - Parameter address: A numeric address; any other text is refused when the server listens.
    init(_ address: String) {
        self.address = address
        let parsed = SocketAddress(address)
        isLocal = parsed?.isLoopback ?? false
        let isWildcard = parsed?.isWildcard ?? false
        name = isWildcard ? SocketAddress.ofThisMachine()?.host ?? "127.0.0.1" : address
    }

    /// The host as it is written in a URL.
    var inURL: String { name.contains(":") ? "[\(name)]" : name }

    /// Checks that no other program listens on a port.
    ///
    /// - Parameter option: The option that chooses it, for the message.
    /// - Throws: ``SettingsError``
    func checkIsFree(_ port: Int, _ option: String) throws {
        try ListeningAddress(host: address, port: port, hostSetting: "--host", portSetting: option).checkIsFree()
    }
}
