import EventLoop
import HTTPTypes
package import Logging
import Net

/// Logs one line per request: client, method, path, status, duration, the name of the caller's key, the type of the problem, the field
/// that is invalid, and the reason why a credential is not accepted.
/// For a request forwarded by a trusted proxy, `remote` is the proxy and `client` the original client.
///
/// The query is left out, because callbacks carry data from phones in it. All headers are left out too: what is not
/// logged cannot leak.
package final class AccessLog: Middleware {
    private let logger: Logger
    /// Paths that health probes request every second. They are logged at `debug`.
    private let quietPaths: [String]
    private let mask: SecretMask

    /// - Parameter mask: Masks the paths, including those without a route.
    package init(logger: Logger, quietPaths: [String] = [], mask: SecretMask = SecretMask()) {
        self.logger = logger
        self.quietPaths = quietPaths
        self.mask = mask
    }

    package func receive(_ request: Request) -> Response? { nil }

    package func send(_ response: inout Response, to request: Request) {
        let path = request.path
        let level: Logger.Level = quietPaths.contains(path) ? .debug : .info
        guard logger.logLevel <= level else { return }
        var metadata: Logger.Metadata = [
            "request_id": "\(request.id)",
            "remote": "\(request.remoteAddress.host)",
            "milliseconds": "\(request.loop.now - request.startedAt)",
        ]
        if let key = request.principal?.keyName { metadata["key"] = "\(key)" }
        if let problem = response.problem { metadata["problem"] = "\(problem)" }
        if let field = response.field { metadata["field"] = "\(field)" }
        if let reason = response.reason { metadata["reason"] = "\(reason)" }
        let client = request.clientAddress
        if client != request.remoteAddress { metadata["client"] = "\(client.host)" }
        let shown = request.route == 0 ? mask.masked(unknownPath: path) : mask.masked(path: path)
        logger.log(
            level: level,
            "\(request.method.rawValue) \(shown) \(response.status.code)",
            metadata: metadata
        )
    }

    package func refuse(_ refusal: Refusal) {
        logger.info(
            "Request refused: \(refusal.status.code)",
            metadata: [
                "request_id": "\(refusal.id)",
                "remote": "\(refusal.remoteAddress.host)",
                "reason": "\(refusal.error.reason)",
            ]
        )
    }
}
