package import ServiceKit

/// The settings of pushes.
package struct PushSettings: SettingsGroup {
    package var retentionDays = 30
    /// The intervals of the delivery, which tests shorten.
    package var intervals = WorkIntervals()

    package init() {}

    package static let settings: [Setting<PushSettings>] = [
        Setting(
            "pushes.retention_days",
            \.retentionDays,
            .integer(1...3650),
            "days after its end at which a push is deleted, with its batches"
        )
    ]
}
