package import ServiceKit

/// The settings of pushes.
package struct PushSettings: SettingsGroup {
    package var retentionDays = 30
    /// The rate of pushes whose requests have none.
    package var defaultUsersPerSecond: Int?
    /// The intervals of the delivery, which tests shorten.
    package var intervals = WorkIntervals()

    package init() {}

    package static let settings: [Setting<PushSettings>] = [
        Setting(
            "pushes.retention_days",
            \.retentionDays,
            .integer(1...3650),
            "days after its end at which a push is deleted, with its batches"
        ),
        Setting(
            "pushes.default_users_per_second",
            \.defaultUsersPerSecond,
            optional: .integer(1...1_000_000),
            reloadable: true,
            "the rate of a push whose request has no `users_per_second`, so that the apps of all users do not call at once"
        ),
    ]
}
