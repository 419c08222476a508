package import Settings

/// The settings of the audit log.
package struct AuditSettings: SettingsGroup {
    package var retentionDays = 730

    package init() {}

    package static let settings: [Setting<AuditSettings>] = [
        Setting(
            "audit.retention_days",
            \.retentionDays,
            .integer(1...3650),
            "days after which a record of the audit log is deleted"
        )
    ]
}
