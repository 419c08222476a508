/// The purpose of a push. The law has rules for advertising.
package enum PushKind: String, CaseIterable, Sendable {
    /// Sent within ``AdvertisingHours`` only, with the mark of advertising, to users who have consented.
    case advertising
    /// About a contract, an order or the like: sent at any time.
    case informational
}
