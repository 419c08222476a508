import EventLoop
import Glibc
import HTTPServer
import Net
import Settings

/// An address that a server listens on, and the settings or the options that it comes from.
package struct ListeningAddress: Sendable {
    private let host: String
    private let port: Int
    private let hostSetting: String
    private let portSetting: String

    /// - Parameters:
    ///   - host: A numeric address.
    ///   - hostSetting: The setting or the option to change if this machine has no such address.
    ///   - portSetting: The setting or the option to change if the port cannot be used.
    package init(host: String, port: Int, hostSetting: String, portSetting: String) {
        self.host = host
        self.port = port
        self.hostSetting = hostSetting
        self.portSetting = portSetting
    }

    /// Checks that a server can listen here and that no other one does, before anything else is opened.
    ///
    /// - Throws: ``SettingsError`` that names the setting.
    package func checkIsFree() throws {
        try reportingFailures { try FileDescriptor.checkIsFree(host, port: port) }
    }

    /// Runs `body`, which binds the address.
    ///
    /// - Throws: ``SettingsError`` that names the setting, if this is impossible; the other errors of `body`.
    func reportingFailures<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as SystemError where error.code == EADDRINUSE {
            throw SettingsError(
                place: portSetting,
                message:
                    "Another program listens on port \(port) of \(host). Stop it, or choose another port with \(portSetting)."
            )
        } catch let error as SystemError where error.code == EACCES {
            throw SettingsError(
                place: portSetting,
                message:
                    "Port \(port) is reserved for root. Choose one above 1023 with \(portSetting), or allow it to the program."
            )
        } catch let error as SystemError where Self.codesOfHosts.contains(error.code) {
            throw SettingsError(
                place: hostSetting,
                message:
                    "\(host) is no numeric address of this machine. Choose one with \(hostSetting), such as 127.0.0.1 or 0.0.0.0."
            )
        }
    }

    /// The errors of addresses that are not numeric, not this machine's, or of a family that it does not have.
    private static let codesOfHosts = [EINVAL, EADDRNOTAVAIL, EAFNOSUPPORT]
}

extension Settings {
    /// The address that Kakao and apps call.
    var listeningAddress: ListeningAddress {
        ListeningAddress(host: http.host, port: http.port, hostSetting: "http.host", portSetting: "http.port")
    }

    /// The address that operators call; `nil` if they call the other one.
    var operatorListeningAddress: ListeningAddress? {
        operatorPort.map { port in
            ListeningAddress(
                host: operatorHost ?? http.host,
                port: port,
                hostSetting: operatorHost == nil ? "http.host" : "http.operator_host",
                portSetting: "http.operator_port"
            )
        }
    }

    /// Checks that the server can listen on its ports, or that the sockets of the service manager do.
    ///
    /// - Throws: ``SettingsError`` that names the setting.
    func checkPorts(_ serviceManager: ServiceManager) throws {
        try serviceManager.check(ports: [http.port] + [operatorPort].compactMap(\.self))
        if serviceManager.sockets(at: http.port).isEmpty { try listeningAddress.checkIsFree() }
        guard let operatorPort, serviceManager.sockets(at: operatorPort).isEmpty else { return }
        try operatorListeningAddress?.checkIsFree()
    }
}
