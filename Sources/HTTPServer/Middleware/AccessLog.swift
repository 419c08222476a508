internal import EventLoop
internal import HTTPTypes
package import Logging

/// Writes one line a request: who asked for what, what was answered, and how long it took. Of a request that came through a trusted
/// proxy it names the proxy as `remote`, and who it came from as `client`.
///
/// The query is left out, since callbacks carry what a phone sent in it, and so is every header: what is not written cannot leak.
package final class AccessLog: Middleware {
    private let logger: Logger
    /// Asked once: a logger looks it up behind an existential each time.
    private let logLevel: Logger.Level
    /// Paths that probes ask for every second: logged at `debug`.
    private let quietPaths: [String]
    private let mask: SecretMask

    /// - Parameter mask: Masks the paths, also those that lead nowhere.
    package init(logger: Logger, quietPaths: [String] = [], mask: SecretMask = SecretMask()) {
        self.logger = logger
        logLevel = logger.logLevel
        self.quietPaths = quietPaths
        self.mask = mask
    }

    package func receive(_ request: Request) -> Response? { nil }

    package func send(_ response: inout Response, to request: Request) {
        let path = request.path
        let level: Logger.Level = quietPaths.contains(path) ? .debug : .info
        guard logLevel <= level else { return }
        var metadata: Logger.Metadata = [
            "request_id": "\(request.id)",
            "remote": "\(request.remoteAddress.host)",
            "milliseconds": "\(request.loop.now - request.startedAt)",
        ]
        let client = request.clientAddress
        if client != request.remoteAddress { metadata["client"] = "\(client.host)" }
        logger.log(
            level: level,
            "\(request.method.rawValue) \(mask.masked(path: path)) \(response.status.code)",
            metadata: metadata
        )
    }

    package func refuse(_ refusal: Refusal) {
        logger.info(
            "refused \(refusal.status.code)",
            metadata: [
                "request_id": "\(refusal.id)",
                "remote": "\(refusal.remoteAddress.host)",
                "reason": "\(refusal.error.reason)",
            ]
        )
    }
}
