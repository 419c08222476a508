package import Settings

/// The settings of sharing.
package struct SharingSettings: SettingsGroup {
    /// The domains that are registered at Kakao; empty if they are not known.
    package var domains: [String] = []

    package init() {}

    package static let settings: [Setting<SharingSettings>] = [
        Setting(
            "sharing.domains",
            \.domains,
            .domains,
            example: "example.com, www.example.com",
            "the domains that are registered at Kakao as site domains of the app, with the port if it is not the usual one. The linter reports links of templates to others, since Kakao drops them"
        )
    ]
}
