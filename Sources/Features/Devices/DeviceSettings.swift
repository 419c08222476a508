package import Identity
package import Settings

/// The settings of devices.
package struct DeviceSettings: SettingsGroup {
    package var pruneAfterFailures = 3
    package var renewDaysBeforeExpiry = 7
    package var activeWithinDays = 90
    /// The lifetime of tokens before Kakao has named one, in days.
    package var tokenLifetimeDays = 30
    /// The new devices that a user's apps may add in an hour; `nil` for no limit.
    package var newPerHourPerUser: Int? = 20

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
        Setting(
            "devices.token_lifetime_days",
            \.tokenLifetimeDays,
            .integer(1...36_500),
            "the days in the response of `/v1/push/register` while the call to Kakao is pending and Kakao has not yet named the lifetime of a token of that push type ([devices](devices.md#while-kakao-is-unavailable))"
        ),
        Setting(
            "devices.new_per_hour_per_user",
            \.newPerHourPerUser,
            .limit,
            reloadable: true,
            "new devices and new push tokens that a user's apps may register in an hour, beyond which the response is 429; 0: no limit ([devices](devices.md#devices-per-user))"
        ),
    ]

    /// The settings of the devices' users, which the check of their credentials reads.
    package static let ofUsers: [Setting<IdentitySettings>] = [
        Setting(
            "devices.user_ids",
            \.givenUserIDs,
            optional: .choice,
            default: "`kakao` if `kakao.app_id` is set or Kakao's tokens are accepted, otherwise `own`",
            example: "kakao",
            "the origin of the devices' user ids. With `kakao`, the devices of a user who unlinks the app are deregistered; with `own`, the service numbers its users itself, and an unlink does not affect devices"
        ),
        Setting(
            "devices.requests_per_minute_per_user",
            \.requestsPerMinutePerUser,
            .limit,
            reloadable: true,
            "requests with a user's tokens to the device endpoints and to Kakao's calls about the user, beyond which the response is 429; 0: no limit ([rate limits](#rate-limits))"
        ),
        Setting(
            "devices.requests_per_minute_per_address",
            \.requestsPerMinutePerAddress,
            .limit,
            reloadable: true,
            "such requests from each IPv4 address or IPv6 /64 with tokens that the server has not verified before; 0: no limit ([rate limits](#rate-limits))"
        ),
    ]
}
