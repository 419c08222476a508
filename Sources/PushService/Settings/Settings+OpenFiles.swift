internal import Crypto
internal import EventLoop
internal import HTTPServer
internal import Journal
internal import KakaoAPI
internal import Postgres
internal import ServiceKit
internal import Webhooks

/// The files that a server may have open, and the connections of clients that their limit allows.
package struct OpenFiles: Sendable {
    /// The number of files that a server may need: an estimate, on the high side. Each connection is one.
    package let needed: Int
    /// The limit of open files.
    package let limit: Int
    /// The number of clients' connections that the limit allows at each port.
    package let connections: Int

    /// Whether the limit is too low.
    package var isShort: Bool { limit < needed }

    /// - Parameters:
    ///   - others: The number of files besides clients' connections.
    ///   - configured: The setting `http.max_connections`.
    fileprivate init(limit: Int, others: Int, configured: Int, portCount: Int) {
        self.limit = limit
        needed = configured * portCount + others
        let allowed = OpenFileLimit.connections(limit: limit, others: others)
        connections = min(configured, max(1, allowed / portCount))
    }
}

extension Settings {
    private var portCount: Int { operatorPort == nil ? 1 : 2 }

    /// Returns the files that a server needs, and what a limit of open files allows.
    ///
    /// - Parameter loopCount: The number of event loops, each with connections of its own.
    package func openFiles(limit: Int, loopCount: Int = EventLoopGroup.coreCount) -> OpenFiles {
        // The limits hold for each of Kakao's two hosts.
        let toKakao = KakaoBudget.connectionLimits(kakao.maximumConcurrentRequests).values.reduce(0, +) * 2
        // The listeners, epoll, the eventfd, and connections for Kakao's public keys.
        let ofLoop = toKakao + portCount + 8
        let toPostgres = (try? PostgresSettings(url: databaseURL.revealed)).map {
            PushServer.maximumDatabaseConnections($0, loopCount: loopCount)
        }
        let ofJournal = journal.maximumBytes / Journal.defaultFileSize + 1
        // The standard streams, libraries, name lookups.
        let ofProcess = 32
        return OpenFiles(
            limit: limit,
            others: loopCount * ofLoop + (toPostgres ?? 0) + WebhookFeature.maximumConnections + ofJournal + ofProcess,
            configured: http.maximumConnections,
            portCount: portCount
        )
    }

    /// Raises the limit of open files as far as a server needs and may. Returns what it allows then.
    func raiseOpenFileLimit(loopCount: Int) -> OpenFiles {
        let needed = openFiles(limit: OpenFileLimit.soft, loopCount: loopCount).needed
        OpenFileLimit.raise(to: needed)
        return openFiles(limit: OpenFileLimit.soft, loopCount: loopCount)
    }
}
