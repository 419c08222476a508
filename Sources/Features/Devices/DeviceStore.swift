import Postgres

/// The devices in PostgreSQL.
///
/// The statements that change devices are in `Transitions`, and those that read them are in
/// `DeviceStore+Reading.swift`. Concurrent executions of frequent statements are combined into one.
final class DeviceStore: Sendable {
    /// The duration of a lease: longer than a call to Kakao may take, but short, since the devices of a stopped server
    /// wait for it.
    static let leaseDuration = Duration.seconds(20)

    let pool: PostgresPool
    /// The setting `channels.tag`: see ``ChannelTag``.
    let channelTag: String?
    let registrations: StatementCoalescer<RegisterDevices>
    let repetitions: StatementCoalescer<RepeatRegistrations>
    let repetitionConfirmations: StatementCoalescer<ConfirmRepetitions>
    let confirmations: StatementCoalescer<ConfirmDevices>
    let lookUps: StatementCoalescer<LookUpDevices>

    init(pool: PostgresPool, channelTag: String?) {
        self.pool = pool
        self.channelTag = channelTag
        registrations = StatementCoalescer(pool: pool) { RegisterDevices(registrations: $0, channelTag: channelTag) }
        repetitions = StatementCoalescer(pool: pool) { RepeatRegistrations(registrations: $0, channelTag: channelTag) }
        repetitionConfirmations = StatementCoalescer(pool: pool) { ConfirmRepetitions(confirmations: $0) }
        confirmations = StatementCoalescer(pool: pool) { ConfirmDevices(confirmations: $0) }
        lookUps = StatementCoalescer(pool: pool, access: .read, maximumItems: 64, concurrency: 2) {
            LookUpDevices(userIDs: $0)
        }
    }
}
