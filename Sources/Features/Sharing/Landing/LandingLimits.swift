import HTTPServer
import Identity
import Logging

/// The limits of visits of landing addresses, by address. Shared by all event loops of a server.
struct LandingLimits: Sendable {
    private let lookUps: AddressLimit
    private let counted: AddressLimit

    init(_ settings: SharingSettings, logger: Logger) {
        lookUps = AddressLimit(perMinute: settings.visitsPerMinutePerAddress, logger: logger)
        counted = AddressLimit(perMinute: settings.countedVisitsPerMinutePerAddress, logger: logger)
    }

    /// Sets the limits of reloaded settings.
    func apply(_ settings: SharingSettings) {
        lookUps.apply(perMinute: settings.visitsPerMinutePerAddress)
        counted.apply(perMinute: settings.countedVisitsPerMinutePerAddress)
    }

    /// Counts a visit whose share has to be looked up in the database against its source address.
    ///
    /// - Throws: ``Problem`` 429.
    func chargeLookUp(_ request: Request) throws { try lookUps.charge(request) }

    /// Returns whether one more visit from this address is stored and counted.
    func admitsCount(_ request: Request) -> Bool { counted.admits(request) }
}
