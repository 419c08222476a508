/// The settings of devices.
package struct DeviceSettings: SettingsGroup {
    package var pruneAfterFailures = 3
    package var renewDaysBeforeExpiry = 7
    package var activeWithinDays = 90
    package var userIDs = UserIDs.kakao
    var givenUserIDs: UserIDs?
    /// The limit of requests of each user to the device endpoints; `nil` for no limit.
    package var requestsPerMinutePerUser: Int? = 60
    /// The limit of requests from each address to the device endpoints; `nil` for no limit.
    package var requestsPerMinutePerAddress: Int? = 600

    package init() {}

    /// Whose user ids devices have.
    package enum UserIDs: String, CaseIterable, Sendable {
        /// Kakao's: an unlink withdraws the user's devices.
        case kakao
        /// The service's own.
        case own
    }

    static let settings: [Setting<DeviceSettings>] = [
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
            "devices.user_ids",
            \.givenUserIDs,
            optional: .choice,
            default: "`kakao` if `kakao.app_id` is set or Kakao's tokens are accepted, otherwise `own`",
            example: "kakao",
            "whose user ids devices have. With `kakao`, the devices of a user who unlinks the app are deregistered; with `own`, the service numbers its users itself, and an unlink says nothing about devices"
        ),
        Setting(
            "devices.requests_per_minute_per_user",
            \.requestsPerMinutePerUser,
            .limit,
            "requests of each user's apps to the device endpoints, beyond which the response is 429; 0: no limit ([rate limits](#rate-limits))"
        ),
        Setting(
            "devices.requests_per_minute_per_address",
            \.requestsPerMinutePerAddress,
            .limit,
            "requests with users' tokens from each IPv4 address or IPv6 /64 to the device endpoints; 0: no limit"
        ),
    ]

    /// Sets the default that depends on other settings, and checks that it does not contradict them.
    mutating func validate(_ reader: SettingsReader, _ kakao: KakaoSettings, _ identity: IdentitySettings) throws {
        let acceptsKakaoTokens = identity.acceptsKakaoAccessTokens || identity.acceptsKakaoIDTokens
        userIDs = givenUserIDs ?? (kakao.appID != nil || acceptsKakaoTokens ? .kakao : .own)
        guard userIDs == .kakao || !acceptsKakaoTokens else {
            throw reader.error(
                "devices.user_ids",
                "cannot be own while Kakao's tokens are accepted, which name users by Kakao's ids: set identity.kakao_access_token and identity.kakao_id_token to false."
            )
        }
    }
}
