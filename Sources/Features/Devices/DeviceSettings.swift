package import Settings

/// The settings of devices. Those of `devices.*` that concern credentials and users are in ``IdentitySettings``.
package struct DeviceSettings: SettingsGroup {
    package var pruneAfterFailures = 3
    package var renewDaysBeforeExpiry = 7
    package var activeWithinDays = 90

    package init() {}

    package static let settings: [Setting<DeviceSettings>] = [
        Setting(
            "devices.prune_after_failures",
            \.pruneAfterFailures,
            .integer(1...1000),
            "reports of a failed token after which its device is deregistered"
        ),
        Setting(
            "devices.renew_days_before_expiry",
            \.renewDaysBeforeExpiry,
            .integer(1...365),
            "days before expiry at Kakao at which a token is renewed; a change applies to devices that are registered at Kakao from then on ([devices](devices.md#token-renewal))"
        ),
        Setting(
            "devices.active_within_days",
            \.activeWithinDays,
            .integer(1...3650),
            "days since the last registration by the app after which a device is no longer renewed"
        ),
    ]
}
