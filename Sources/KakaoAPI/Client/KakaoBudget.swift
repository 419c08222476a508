internal import HTTPClient

/// The purposes of calls to Kakao. Each has its own connections, so that a push to millions does not delay the login of
/// one user, and background work delays neither.
package enum KakaoBudget: Sendable, CaseIterable {
    /// Sends of pushes.
    case pushes
    /// Calls for which an app or an operator waits.
    case requests
    /// Calls of background workers.
    case background

    /// Returns the maximum number of connections of each event loop.
    ///
    /// - Parameter limit: The setting `kakao.max_concurrent_requests`.
    package func maximumConnections(limit: Int) -> Int {
        switch self {
        case .pushes, .requests: limit
        case .background: max(2, limit / 4)
        }
    }

    func connections(limit: Int) -> ConnectionGroup {
        let name =
            switch self {
            case .pushes: "pushes"
            case .requests: "requests"
            case .background: "background"
            }
        return ConnectionGroup(name, maximumConnections: maximumConnections(limit: limit))
    }
}
