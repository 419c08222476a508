import EventLoop
import HTTPServer
import Net

/// The limits of calls with the app's own keys: for each network and day, and for all networks and a minute. Shared by all event
/// loops of a server.
///
/// Anyone can read these keys in the app, and each call uses up a quota that Kakao grants to the app as a whole. A network that
/// has used up its own share takes nothing from the others.
final class AppKeyLimits: Sendable {
    private enum Everyone: Hashable { case everyone }

    private let networks: RequestLimit<SocketAddress.Network>
    private let sites: RequestLimit<SocketAddress.Network>
    private let server: RequestLimit<Everyone>

    /// - Parameters:
    ///   - perDay: The calls of each IPv4 address or IPv6 /64 in a day. An IPv6 site has four times as many.
    ///   - perMinute: The calls of all of them together in a minute.
    init(perDay: Int, perMinute: Int) {
        networks = RequestLimit(perDay: perDay)
        sites = RequestLimit(perDay: perDay)
        server = RequestLimit(perMinute: perMinute)
    }

    /// Sets other limits for further calls.
    func apply(perDay: Int, perMinute: Int) {
        networks.apply(perDay: perDay)
        sites.apply(perDay: perDay)
        server.apply(perMinute: perMinute)
    }

    /// Counts a call against its network, its site and the server.
    ///
    /// - Throws: ``Problem`` 429.
    func charge(_ network: SocketAddress.Network, at now: MonotonicTime = .now) throws {
        if let wait = networks.take(from: network, at: now) ?? takeFromSite(of: network, at: now) {
            throw Problem.tooManyRequests("Too many calls with the app's key from this network.", wait: wait)
        }
        if let wait = server.take(from: .everyone, at: now) {
            throw Problem.tooManyRequests("Too many calls with the app's key.", wait: wait)
        }
    }

    private func takeFromSite(of network: SocketAddress.Network, at now: MonotonicTime) -> Duration? {
        network.site.flatMap { sites.take(from: $0, factor: SocketAddress.Network.networksPerSite, at: now) }
    }
}
