package import Settings

/// The settings of the operator's page.
package struct OperatorPageSettings: SettingsGroup {
    package var isEnabled = true

    package init() {}

    package static let settings: [Setting<OperatorPageSettings>] = [
        Setting(
            "page.enabled",
            \.isEnabled,
            .boolean,
            "whether operators can sign in to the [page](page.md) at `/ui/`: at `http.operator_port`, if that is set"
        )
    ]
}
