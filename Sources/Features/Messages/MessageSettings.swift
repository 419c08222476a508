package import Runtime
package import Settings

/// The settings of KakaoTalk messages.
package struct MessageSettings: SettingsGroup {
    package var retentionDays = 90
    package var quotas = MessageQuotaSettings()
    package var requestsPerSecond = 100
    /// The intervals of the sending, which tests shorten.
    package var intervals = WorkIntervals()

    package init() {}

    package static let settings: [Setting<MessageSettings>] = [
        Setting(
            "messages.retention_days",
            \.retentionDays,
            .integer(1...3650),
            "days after its end at which a KakaoTalk message is deleted, with its receivers"
        ),
        Setting(
            "talk.quota_time_zone",
            \.quotas.timeZone,
            .timeZone,
            "the time zone in which Kakao's quotas for messages begin a new day"
        ),
        Setting(
            "talk.quota_app",
            \.quotas.app,
            .integer(1...100_000_000),
            "KakaoTalk messages a day of the app; Kakao raises its quotas on request"
        ),
        Setting(
            "talk.quota_sender",
            \.quotas.sender,
            .integer(1...1_000_000),
            "KakaoTalk messages a day of one sender"
        ),
        Setting(
            "talk.quota_receiver",
            \.quotas.receiver,
            .integer(1...1_000_000),
            "KakaoTalk messages a day to one receiver"
        ),
        Setting(
            "talk.quota_pair",
            \.quotas.pair,
            .integer(1...1_000_000),
            "KakaoTalk messages a day of one sender to one receiver"
        ),
        Setting(
            "talk.quota_memo",
            \.quotas.memo,
            .integer(1...1_000_000),
            "KakaoTalk messages a day from a user to the user's own chatroom; Kakao does not document this quota"
        ),
        Setting(
            "talk.requests_per_second",
            \.requestsPerSecond,
            .integer(1...100_000),
            "requests a second with which each server sends stored KakaoTalk messages, each with up to five receivers"
        ),
    ]
}
