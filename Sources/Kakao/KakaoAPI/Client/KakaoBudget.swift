package import HTTPClient

/// The purposes of calls to Kakao. Each has its own connections, so that a push to millions does not delay the login of
/// one user, and background work delays neither.
package enum KakaoBudget: UInt8, Sendable, CaseIterable {
    /// Sends of pushes.
    case pushes = 1
    /// Calls for which an app or an operator waits.
    case requests
    /// Calls of background workers.
    case background

    var connections: ConnectionGroup { ConnectionGroup(rawValue) }

    /// Returns the maximum number of connections of each purpose, for each event loop.
    ///
    /// - Parameter limit: The setting `kakao.max_concurrent_requests`.
    package static func connectionLimits(_ limit: Int) -> [ConnectionGroup: Int] {
        [
            pushes.connections: limit, requests.connections: limit, background.connections: max(2, limit / 4),
        ]
    }
}
