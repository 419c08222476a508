import Crypto
import EventLoop
package import HTTPServer
import Journal
import KakaoAPI
import Postgres
import Settings
import Webhooks

extension Settings {
    /// The files that a server may have open: an estimate, on the high side.
    ///
    /// - Parameter loopCount: The number of event loops; `nil` for that of the settings.
    package func openFiles(loopCount: Int? = nil) -> OpenFiles {
        let loopCount = loopCount ?? self.loopCount
        let portCount = operatorPort == nil ? 1 : 2
        // The limits hold for each of Kakao's two hosts.
        let toKakao = KakaoBudget.connectionLimits(kakao.maximumConcurrentRequests).values.reduce(0, +) * 2
        // The listeners, epoll, the eventfd, and connections for Kakao's public keys.
        let ofLoop = toKakao + portCount + 8
        let toPostgres = connectionPlan(loopCount: loopCount).total
        let ofJournal = journal.maximumBytes / Journal.defaultFileSize + 1 + JournalSettings.maximumUnverifiedFiles
        // The standard streams, libraries, name lookups.
        let ofProcess = 32
        return OpenFiles(
            connections: http.maximumConnections,
            portCount: portCount,
            others: loopCount * ofLoop + toPostgres + WebhookFeature.maximumConnections + ofJournal + ofProcess
        )
    }
}
