package import HTTPClient

/// The purposes of calls to Kakao. Each has its own connections, so that a push to millions does not delay the request of
/// one user, and neither background work nor logins, which anyone may begin, delay either.
package enum KakaoBudget: UInt8, Sendable, CaseIterable {
    /// Sends of pushes.
    case pushes = 1
    /// Calls for which an app or an operator waits.
    case requests
    /// Calls of background workers.
    case background
    /// Exchanges of the codes of logins, which strangers can invent.
    case logins

    var connections: ConnectionGroup { ConnectionGroup(rawValue) }

    /// Returns the maximum number of connections of each purpose, for each event loop.
    ///
    /// - Parameter limit: The setting `kakao.max_concurrent_requests`.
    package static func connectionLimits(_ limit: Int) -> [ConnectionGroup: Int] {
        [
            pushes.connections: limit, requests.connections: limit, background.connections: max(2, limit / 4),
            logins.connections: max(2, limit / 4),
        ]
    }
}
