package import Settings

/// The settings of calls from Kakao.
package struct CallbackSettings: SettingsGroup {
    package var retentionDays = 400
    package var eventRetentionDays = 400

    package init() {}

    package static let settings: [Setting<CallbackSettings>] = [
        Setting(
            "callbacks.retention_days",
            \.retentionDays,
            .integer(1...3650),
            "days after which a stored Kakao Link callback is deleted. Statistics are kept"
        ),
        Setting(
            "events.retention_days",
            \.eventRetentionDays,
            .integer(1...3650),
            "days after which an event of a user is deleted"
        ),
    ]
}
