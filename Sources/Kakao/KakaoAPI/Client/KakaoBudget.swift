package import HTTPClient

/// The purposes of calls to Kakao. Each has its own connections, so that a push to millions does not delay the request of
/// one user, and neither background work nor what strangers may cause delays either.
package enum KakaoBudget: UInt8, Sendable, CaseIterable {
    /// Sends of pushes.
    case pushes = 1
    /// Calls for which an app or an operator waits.
    case requests
    /// Calls of background workers.
    case background
    /// Exchanges of the codes with which browsers return, which strangers can invent.
    case logins
    /// Exchanges of the codes that operators send.
    case codes
    /// Look-ups of access tokens, which strangers can invent.
    case tokens
    /// Calls with the app's own keys, which are public.
    case appKeys

    var connections: ConnectionGroup { ConnectionGroup(rawValue) }

    /// Returns the maximum number of connections for each event loop and each of Kakao's hosts.
    ///
    /// - Parameter limit: The setting `kakao.max_concurrent_requests`.
    package func maximumConnections(_ limit: Int) -> Int {
        switch self {
        case .pushes, .requests, .tokens: limit
        case .background, .logins, .codes, .appKeys: max(2, limit / 4)
        }
    }

    /// Returns the maximum number of connections of each purpose, for each event loop.
    ///
    /// - Parameter limit: The setting `kakao.max_concurrent_requests`.
    package static func connectionLimits(_ limit: Int) -> [ConnectionGroup: Int] {
        Dictionary(uniqueKeysWithValues: allCases.map { ($0.connections, $0.maximumConnections(limit)) })
    }
}
