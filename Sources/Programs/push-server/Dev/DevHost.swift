import EventLoop
import Glibc
import Net
import Settings

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
    /// - Parameter option: The option or the setting to change, for the message.
    /// - Throws: ``SettingsError``
    func checkIsFree(_ port: Int, _ option: String) throws {
        do {
            try FileDescriptor.checkIsFree(address, port: port)
        } catch let error as SystemError where error.code == EADDRINUSE {
            throw SettingsError(
                place: option,
                message:
                    "Another program listens on port \(port) of \(address). Stop it, or choose another port with \(option)."
            )
        } catch let error as SystemError {
            throw SettingsError(place: option, message: "Cannot listen on port \(port) of \(address): \(error)")
        }
    }
}
