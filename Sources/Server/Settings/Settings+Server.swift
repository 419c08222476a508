import Callbacks
import Crypto
import EventLoop
import HTTPServer
import Identity
package import Net
package import Postgres
import Settings

extension Settings {
    /// The number of event loops.
    package var loopCount: Int { loops ?? EventLoopGroup.coreCount }

    /// Returns the settings of the database.
    func database() throws(PostgresError) -> PostgresSettings { try postgres(databaseURL) }

    /// Returns the settings of the replica for reads; `nil` if there is none.
    package func replica() throws(PostgresError) -> PostgresSettings? {
        guard let replicaURL else { return nil }
        var settings = try postgres(replicaURL)
        settings.isReplica = true
        return settings
    }

    private func postgres(_ url: Secret) throws(PostgresError) -> PostgresSettings {
        var settings = try PostgresSettings(url: url.revealed)
        settings.statementTimeout = databaseTimeout
        settings.waitTimeout = databaseTimeout
        return settings
    }

    /// Returns the connections to PostgreSQL of a server.
    ///
    /// - Parameter loopCount: The number of event loops; `nil` for that of the settings.
    package func connectionPlan(loopCount: Int? = nil) -> ConnectionPlan {
        ConnectionPlan(loops: loopCount ?? self.loopCount, maximum: maximumDatabaseConnections)
    }

    /// Returns the URL at which Kakao and phones reach the server; `nil` if they cannot.
    package func publicURL(port: Int) -> String? {
        switch publicURL {
        case nil: nil
        case .given(let url): url
        case .own(let host): url(host: host, port: port)
        }
    }

    /// Returns the URL of the server at a host, as it is written in a URL, and a port.
    package func url(host: String, port: Int) -> String {
        "\(http.tls == nil && certificateFile == nil ? "http" : "https")://\(host):\(port)"
    }

    /// Returns the URL at which Kakao reports failed tokens; `nil` if Kakao cannot reach the server.
    func returnURL(port: Int) -> String? {
        guard let publicURL = publicURL(port: port), let feedbackSecret = identity.feedbackSecret else { return nil }
        return publicURL + CallbackFeature.feedbackPath + feedbackSecret.revealed
    }

    /// Returns the HTTP settings, with the certificate read.
    func httpServer() throws -> HTTPServerSettings {
        var http = http
        http.tls = try tlsContext()
        return http
    }

    /// Returns the HTTP settings of the port for operators, which differ from those of the other port in the address only;
    /// `nil` if there is no such port.
    func operatorServer(_ main: HTTPServerSettings) -> HTTPServerSettings? {
        operatorPort.map { port in
            var settings = main
            settings.host = operatorHost ?? main.host
            settings.port = port
            return settings
        }
    }

    /// Reads certificate and key from their files. Returns `nil` for plain HTTP.
    package func tlsContext() throws -> TLSContext? {
        guard let certificateFile, let privateKeyFile else { return nil }
        func contents(_ path: String, _ setting: String) throws -> [UInt8] {
            guard let bytes = FileContents.read(path) else {
                throw SettingsError(place: setting, message: "The file \(path) cannot be read.")
            }
            return bytes
        }
        return try TLSContext(
            certificateChain: contents(certificateFile, "http.tls.certificate_file"),
            privateKey: contents(privateKeyFile, "http.tls.private_key_file")
        )
    }
}
