package import EventLoop

/// The requests that a server has answered, by route. Each loop counts its own without a lock; a reader adds them up.
///
/// A request counts when its response begins. Requests without a response, because the client has gone, do not count.
package struct RequestCounts: Sendable {
    /// The requests of one route.
    package struct OfRoute: Sendable {
        /// The name of the route: ``Router/add(_:_:name:check:bodyLimit:_:)``.
        package let route: String
        /// The numbers of responses by status, without those that are 0.
        package let statuses: [(status: String, count: Int)]
        /// The times from the end of the requests' heads to the beginning of the responses.
        package let durations: DurationCounts
    }

    /// The statuses that are counted by themselves. Others count by their class, so that no peer determines how many
    /// numbers there are.
    private static let statuses = [
        200, 201, 202, 204, 302, 303, 304, 400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 422, 429, 431, 500, 502,
        503, 504,
    ]
    private static let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"]
    private static let labels = statuses.map { String($0) } + classes
    /// The index of the label of each status from 100 to 599.
    private static let labelIndexes: [Int] = (100..<600).map { status in
        statuses.firstIndex(of: status) ?? statuses.count + status / 100 - 1
    }
    /// The statuses with which the server refuses a request that may be correct: see ``refusals``.
    private static let refusing: Set = [401, 403, 408, 413, 414, 429, 431, 503]

    private var routes: [String]
    // Copies of the static values, which are initialized on first use and so cost a check at each use.
    private let labelIndexes = Self.labelIndexes
    private let labelCount = Self.labels.count
    /// The numbers of responses, by route and within it by label.
    private var responses: [Int]
    /// The durations by route.
    private var durations: [DurationCounts]
    /// The numbers of requests that were refused, by the kind of problem. The client is not authorized, too slow, sends
    /// too much or too often, or the server cannot serve it now.
    package private(set) var refusals: [String: Int] = [:]
    /// The numbers of requests that were answered 401, by the reason of the problem.
    package private(set) var rejectedCredentials: [String: Int] = [:]
    /// The number of requests that count as their proxy's, because it reported no readable address of the client.
    package private(set) var unreadableAddresses = 0

    /// - Parameter routes: The names of the routes, by their numbers.
    init(routes: [String]) {
        self.routes = routes
        responses = Array(repeating: 0, count: routes.count * labelCount)
        durations = Array(repeating: DurationCounts(), count: routes.count)
    }

    /// Counts a request.
    ///
    /// - Parameters:
    ///   - route: The number of the route.
    ///   - milliseconds: The time until the response began.
    ///   - problem: The kind of problem that the response shows.
    ///   - reason: The reason of that problem: see ``Problem/reason``.
    mutating func record(
        route: Int,
        status: Int,
        milliseconds: UInt64,
        problem: String?,
        reason: String? = nil
    ) {
        let label = labelIndexes[min(max(status, 100), 599) - 100]
        responses[route * labelCount + label] += 1
        durations[route].record(milliseconds: milliseconds)
        guard let problem, Self.refusing.contains(status) else { return }
        refusals[problem, default: 0] += 1
        if let reason { rejectedCredentials[reason, default: 0] += 1 }
    }

    /// Counts a request whose client's address cannot be read. The request itself is counted with its response.
    mutating func recordUnreadableAddress() { unreadableAddresses += 1 }

    /// Adds the requests of another loop or server, by the names of their routes.
    package static func += (total: inout RequestCounts, other: RequestCounts) {
        var numbers = Dictionary(uniqueKeysWithValues: zip(total.routes, total.routes.indices))
        for (number, route) in other.routes.enumerated() {
            let place = numbers[route] ?? total.add(route)
            numbers[route] = place
            for label in 0..<total.labelCount {
                total.responses[place * total.labelCount + label] += other.responses[number * total.labelCount + label]
            }
            total.durations[place] += other.durations[number]
        }
        total.refusals.merge(other.refusals) { $0 + $1 }
        total.rejectedCredentials.merge(other.rejectedCredentials) { $0 + $1 }
        total.unreadableAddresses += other.unreadableAddresses
    }

    /// Adds a route and returns its number.
    private mutating func add(_ route: String) -> Int {
        routes.append(route)
        responses += Array(repeating: 0, count: labelCount)
        durations.append(DurationCounts())
        return routes.count - 1
    }

    /// The requests of each route that has had any.
    package var byRoute: [OfRoute] {
        routes.indices.compactMap { route in
            let counts = responses[(route * labelCount)..<((route + 1) * labelCount)]
            let statuses = zip(Self.labels, counts).filter { $0.1 > 0 }
            guard !statuses.isEmpty else { return nil }
            return OfRoute(
                route: routes[route],
                statuses: statuses.map { (status: $0.0, count: $0.1) },
                durations: durations[route]
            )
        }
    }
}
