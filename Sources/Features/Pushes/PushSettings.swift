package import Runtime
package import Settings

/// The settings of pushes.
package struct PushSettings: SettingsGroup {
    package var retentionDays = 30
    /// The rate of pushes whose requests have none.
    package var defaultUsersPerSecond: Int?
    /// The number of users above which a push needs an approval; `nil` for none.
    package var approvalAboveUsers: Int?
    /// The users of pushes with `to_testers`.
    package var testers: [Int64] = []
    /// Whether each request has to say whether its push is advertising.
    package var requiresKind = false
    package var advertisingHours = AdvertisingHours()
    package var timeZone = "Asia/Seoul"
    /// The tag that all of a user's devices need for advertising. It is read when users are prepared.
    package var advertisingTag: String?
    /// The text of `custom_field` with which notifications begin that the app draws.
    package var advertisingText: MemberPath?
    /// The member of `custom_field` with the push's id; `nil` for none. It is read when a server begins to send a push.
    package var idField: PushIDField?
    /// The opened pushes that a user's apps may report in an hour; `nil` for no limit.
    package var opensPerHourPerUser: Int? = 60
    /// The days before now whose pushes the inbox of a user has; `nil` if there is no inbox.
    package var inboxDays: Int?
    /// The pages of the inbox that a user's apps may read in a minute; `nil` for no limit.
    package var inboxPerMinutePerUser: Int? = 10
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
        Setting(
            "pushes.approval_above_users",
            \.approvalAboveUsers,
            optional: .integer(0...1_000_000_000),
            example: "100000",
            reloadable: true,
            "the number of users above which a push waits for its [approval](delivery.md#approval) with another key; with 0, every push to at least one user waits"
        ),
        Setting(
            "pushes.testers",
            \.testers,
            .userIDs(atMost: 100),
            example: "1234, 1235",
            reloadable: true,
            "the users of pushes with [`to_testers`](delivery.md#testers)"
        ),
        Setting(
            "pushes.require_kind",
            \.requiresKind,
            .boolean,
            "whether each request has to say whether its push is `advertising` or `informational` ([advertising](korea.md))"
        ),
        Setting(
            "pushes.advertising_hours",
            \.advertisingHours,
            .hours,
            reloadable: true,
            "the hours in which advertising is sent; outside of them it waits. The default is the law of Korea"
        ),
        Setting(
            "pushes.time_zone",
            \.timeZone,
            .timeZone,
            "the time zone of these hours, and of the times that `push-server` shows and reads"
        ),
        Setting(
            "pushes.advertising_tag",
            \.advertisingTag,
            optional: .text,
            example: "marketing-consent",
            reloadable: true,
            "the tag of devices whose users have consented to [advertising](korea.md#consent), which is sent to no others"
        ),
        Setting(
            "pushes.advertising_text",
            \.advertisingText,
            optional: .memberPath,
            example: "title",
            reloadable: true,
            "the text of `custom_field` with which a notification begins that the app draws itself: [advertising](korea.md) without a visible text must have its mark there"
        ),
        Setting(
            "pushes.id_field",
            \.idField,
            optional: .pushIDField,
            example: "push_id",
            reloadable: true,
            "the member of `custom_field` that phones receive with the id of the push, so that apps can report that it was [opened](opens.md). A push whose sending has begun keeps what it has"
        ),
        Setting(
            "pushes.opens_per_hour_per_user",
            \.opensPerHourPerUser,
            .limit,
            reloadable: true,
            "the [opened pushes](opens.md) that a user's apps may report in an hour, beyond which the response is 429; 0: no limit"
        ),
        Setting(
            "pushes.inbox_days",
            \.inboxDays,
            optional: .integer(1...31),
            example: "7",
            "the days whose pushes `GET /v1/me/pushes` shows to the user whom they were sent to ([inbox](opens.md#inbox)); without it there is no inbox"
        ),
        Setting(
            "pushes.inbox_per_minute_per_user",
            \.inboxPerMinutePerUser,
            .limit,
            reloadable: true,
            "the pages of the [inbox](opens.md#inbox) that a user's apps may read in a minute, beyond which the response is 429; 0: no limit"
        ),
    ]
}
