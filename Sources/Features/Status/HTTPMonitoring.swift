import FoundationEssentials
package import HTTPServer
package import Runtime

/// The report on requests to this server.
package struct HTTPMonitoring: Sendable {
    private static let requests = Metric(
        "kakao_push_http_requests_total",
        .counter,
        "Requests that this server has answered, by operation and status."
    )
    private static let duration = Metric(
        "kakao_push_http_request_duration_seconds",
        .histogram,
        "Time from the end of a request's head to the beginning of its response in seconds."
    )
    private static let refused = Metric(
        "kakao_push_refused_total",
        .counter,
        "Requests refused: not authorized, too many, too large, too slow, or while the server cannot serve them."
    )
    private static let rejectedCredentials = Metric(
        "kakao_push_http_rejected_credentials_total",
        .counter,
        "Requests whose credential was not accepted, by the reason: answered 401, of tokens-off 403 or 409."
    )
    private static let connections = Metric("kakao_push_http_connections", .gauge, "Open connections, by port.")
    private static let connectionLimit = Metric(
        "kakao_push_http_connections_limit",
        .gauge,
        "The connections that may be open, by port."
    )
    private static let waiting = Metric(
        "kakao_push_http_connections_waiting",
        .gauge,
        "Connections whose requests wait for their turn, because the event loops have no time for all, by port."
    )
    private static let evictions = Metric(
        "kakao_push_http_connections_evicted_total",
        .counter,
        "Idle connections that were closed at the limit, to make room for others."
    )
    private static let unreadableAddresses = Metric(
        "kakao_push_http_unreadable_addresses_total",
        .counter,
        "Requests that count as their proxy's, since it reported no readable address of the client."
    )
    private static let certificateExpiry = Metric(
        "kakao_push_certificate_expiry_seconds",
        .gauge,
        "Seconds until the server's certificate expires; negative afterwards."
    )

    private let servers: [HTTPServer]

    /// - Parameter servers: The servers of all ports, at least one. They have the same certificate.
    package init(_ servers: [HTTPServer]) {
        self.servers = servers
    }

    /// Returns the numbers of all ports and loops.
    package func report() async -> Monitoring.Report {
        var requests = await servers[0].requests()
        for server in servers.dropFirst() { requests += await server.requests() }
        let routes = requests.byRoute
        var metrics = [
            Self.requests.reading(
                routes.flatMap { route in
                    route.statuses.map { ([("operation", route.route), ("status", $0.status)], Double($0.count)) }
                }
            ),
            Self.duration.reading(routes.map { ([("operation", $0.route)], $0.durations) }),
            Self.refused.reading(
                "reason",
                requests.refusals.sorted { $0.key < $1.key }.map { ($0.key, Double($0.value)) }
            ),
            Self.rejectedCredentials.reading(
                "reason",
                requests.rejectedCredentials.sorted { $0.key < $1.key }.map { ($0.key, Double($0.value)) }
            ),
            Self.unreadableAddresses.reading(Double(requests.unreadableAddresses)),
        ]
        var ports: [(port: String, connections: HTTPServer.Connections)] = []
        for server in servers { ports.append((String(server.port), await server.connections())) }
        metrics.append(Self.connections.reading("port", ports.map { ($0.port, Double($0.connections.open)) }))
        metrics.append(Self.connectionLimit.reading("port", ports.map { ($0.port, Double($0.connections.limit)) }))
        metrics.append(Self.waiting.reading("port", ports.map { ($0.port, Double($0.connections.waiting)) }))
        metrics.append(Self.evictions.reading("port", ports.map { ($0.port, Double($0.connections.evicted)) }))
        if let expiry = await servers[0].certificateExpiry() {
            metrics.append(Self.certificateExpiry.reading(Double(expiry) - Date().timeIntervalSince1970))
        }
        return Monitoring.Report(metrics: metrics)
    }
}
