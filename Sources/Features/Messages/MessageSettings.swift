package import Runtime
package import Settings

/// The settings of KakaoTalk messages.
package struct MessageSettings: SettingsGroup {
    package var retentionDays = 90
    package var quotaTimeZone = "Asia/Seoul"
    package var quotaOfApp = 30_000
    package var quotaOfSender = 100
    package var quotaOfReceiver = 100
    package var quotaOfPair = 20
    package var quotaOfMemos = 100
    package var requestsPerSecond = 100
    /// The intervals of the sending, which tests shorten.
    package var intervals = WorkIntervals()
    /// The time within which messages that waited for a new day are sent; tests shorten it.
    package var spread = Duration.seconds(600)

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
            \.quotaTimeZone,
            .timeZone,
            "the time zone in which Kakao's quotas for messages begin a new day"
        ),
        Setting(
            "talk.quota_app",
            \.quotaOfApp,
            .integer(1...100_000_000),
            "KakaoTalk messages a day of the app; Kakao raises its quotas on request"
        ),
        Setting(
            "talk.quota_sender",
            \.quotaOfSender,
            .integer(1...1_000_000),
            "KakaoTalk messages a day of one sender"
        ),
        Setting(
            "talk.quota_receiver",
            \.quotaOfReceiver,
            .integer(1...1_000_000),
            "KakaoTalk messages a day to one receiver"
        ),
        Setting(
            "talk.quota_pair",
            \.quotaOfPair,
            .integer(1...1_000_000),
            "KakaoTalk messages a day of one sender to one receiver"
        ),
        Setting(
            "talk.quota_memo",
            \.quotaOfMemos,
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

    var quotas: MessageQuotaSettings {
        MessageQuotaSettings(
            timeZone: quotaTimeZone,
            app: Int32(clamping: quotaOfApp),
            sender: Int32(clamping: quotaOfSender),
            receiver: Int32(clamping: quotaOfReceiver),
            pair: Int32(clamping: quotaOfPair),
            memo: Int32(clamping: quotaOfMemos),
            spread: spread
        )
    }
}
