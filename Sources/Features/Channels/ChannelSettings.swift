package import Runtime
package import Settings

/// The settings of KakaoTalk channels.
package struct ChannelSettings: SettingsGroup {
    /// The tag of the devices of users who have added a channel; `nil` for none.
    package var tag: String?
    package var retentionDays = 400
    /// The intervals of the uploads to customer files. Tests shorten them.
    package var intervals = WorkIntervals()

    package init() {}

    package static let settings: [Setting<ChannelSettings>] = [
        Setting(
            "channels.tag",
            \.tag,
            optional: .text,
            example: "channel",
            "the tag that the server gives the devices of users who have added one of the company's KakaoTalk channels, and takes from the others; apps cannot set it. Needs users with Kakao's ids ([KakaoTalk Channel](channels.md#the-tag))"
        ),
        Setting(
            "channels.retention_days",
            \.retentionDays,
            .integer(1...3650),
            "days after which the server forgets that a person blocked a channel, and the relations of people who have not agreed to tell the app"
        ),
    ]

    /// Checks the rules between these settings and others.
    ///
    /// - Throws: ``SettingsError``
    package func validate(_ reader: SettingsReader, hasKakaoUserIDs: Bool) throws {
        guard let tag else { return }
        guard (1...64).contains(tag.count), tag.unicodeScalars.allSatisfy({ $0.properties.generalCategory != .control })
        else { throw reader.error("channels.tag", "must have 1 to 64 characters, without control characters.") }
        guard hasKakaoUserIDs else {
            throw reader.error(
                "channels.tag",
                "needs devices of users with Kakao's ids: devices.user_ids must be kakao."
            )
        }
    }
}
