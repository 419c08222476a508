package import Journal

/// The settings of calls from Kakao.
package struct CallbackSettings: SettingsGroup {
    /// The secret part of the address to which Kakao reports failed tokens.
    package var feedbackSecret: Secret?
    package var userIDArgument: String?

    package init() {}

    static let settings: [Setting<CallbackSettings>] = [
        Setting(
            "feedback.secret",
            \.feedbackSecret,
            optional: .urlPart,
            example: "/run/secrets/feedback_secret",
            "the secret part of `/kakao/push/feedback/{secret}`; without it the endpoint does not exist"
        ),
        Setting(
            "callbacks.user_id_argument",
            \.userIDArgument,
            optional: .text,
            example: "member",
            "the custom argument of Kakao Link callbacks that holds a user id: removed from stored callbacks when that user is erased"
        ),
    ]
}

/// The settings of the journal, which stores Kakao's calls while PostgreSQL is unavailable.
package struct JournalSettings: SettingsGroup {
    /// The directory of the journal; `nil` for no journal.
    package var directory: String?
    package var maximumBytes = 1 << 30
    /// The file operations, which tests replace to simulate failing disks.
    package var fileOperations = FileOperations.system

    package init() {}

    static let settings: [Setting<JournalSettings>] = [
        Setting(
            "journal.directory",
            \.directory,
            optional: .path,
            default: "none; `/var/lib/push-server/journal` in the image, `.local/journal` with `dev`",
            example: "/var/lib/push-server/journal",
            "the directory that keeps calls from Kakao while PostgreSQL is unavailable; without it they are lost, and the log has a warning at start ([calls from Kakao](callbacks.md)). Use a local disk that outlives the container"
        ),
        Setting(
            "journal.max_bytes",
            \.maximumBytes,
            .bytes(1 << 20...1 << 40),
            "the maximum size of all files in that directory; beyond it Kakao's calls are answered 503"
        ),
    ]
}
