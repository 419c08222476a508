import HTTPServer
import Identity
import Logging
import Net

/// The limits of visits of landing addresses, by address. Shared by all event loops of a server.
struct LandingLimits: Sendable {
    private let visits: AddressLimit
    private let counted: RequestLimit<SocketAddress.Network>

    init(_ settings: SharingSettings, logger: Logger) {
        visits = AddressLimit(perMinute: settings.visitsPerMinutePerAddress, logger: logger)
        counted = RequestLimit(perMinute: settings.countedVisitsPerMinutePerAddress)
    }

    /// Sets the limits of reloaded settings.
    func apply(_ settings: SharingSettings) {
        visits.apply(perMinute: settings.visitsPerMinutePerAddress)
        counted.apply(perMinute: settings.countedVisitsPerMinutePerAddress)
    }

    /// Counts a request against its source address.
    ///
    /// - Throws: ``Problem`` 429.
    func charge(_ request: Request) throws { try visits.charge(request) }

    /// Returns whether one more visit from this address is stored and counted.
    func admitsCount(_ request: Request) -> Bool { counted.take(from: request.clientAddress.network) == nil }
}
