package import ServiceKit

/// The settings of calls from Kakao.
package struct CallbackSettings: SettingsGroup {
    package var userIDArgument: String?

    package init() {}

    package static let settings: [Setting<CallbackSettings>] = [
        Setting(
            "callbacks.user_id_argument",
            \.userIDArgument,
            optional: .text,
            example: "member",
            "the custom argument of Kakao Link callbacks that holds a user id: removed from stored callbacks when that user is erased"
        )
    ]
}
