package import Settings
package import Sharing

/// The settings of calls from Kakao.
package struct CallbackSettings: SettingsGroup {
    /// Whether link callbacks without a valid signature are dropped.
    package var requiresSignature = false
    /// The argument that holds a user id; `nil` if none does.
    package var userIDArgument: String?
    /// The minutes for which stored calls are kept in files beside the journal, if there is one; 0 for none.
    package var replayMinutes = 10
    package var retentionDays = 400
    package var eventRetentionDays = 400
    /// The malformed calls that a server stores in an hour, unless they have an effect: 8 MiB at most. Tests lower it.
    package var maximumMalformedPerHour = 1000
    /// The account events with unknown keys that an address may send in a minute: at most 1 MiB, and far more than Kakao sends before
    /// a new key of its own is fetched. Tests lower it.
    package var eventsWithUnknownKeysPerMinute: Int? = 120
    /// The times of the list of Kakao's addresses. Tests shorten them.
    package var addressTimes = AddressTimes()

    package init() {}

    package static let settings: [Setting<CallbackSettings>] = [
        Setting(
            "callbacks.require_signature",
            \.requiresSignature,
            .boolean,
            "whether Kakao Link callbacks without a valid signature are counted and dropped instead of stored; needs `sharing.signing_key` or `sharing.verification_keys` ([sharing](sharing.md#callbacks-that-cannot-be-forged))"
        ),
        Setting(
            "callbacks.user_id_argument",
            \.userIDArgument,
            optional: .text,
            example: "member",
            "the custom argument of shares and Kakao Link callbacks that holds a user id: removed from them when that user is erased"
        ),
        Setting(
            "callbacks.replay_minutes",
            \.replayMinutes,
            .integer(0...60),
            "minutes for which calls from Kakao stay in files beside the journal after PostgreSQL has committed them, so that they are stored again if it [loses commits](callbacks.md#commits-that-postgresql-loses); 0 for none. Without `journal.directory` there are none"
        ),
        Setting(
            "callbacks.retention_days",
            \.retentionDays,
            .integer(1...3650),
            "days after which a stored Kakao Link callback is deleted. Statistics are kept"
        ),
        Setting(
            "events.retention_days",
            \.eventRetentionDays,
            .integer(1...3650),
            "days after which an event of a user is deleted"
        ),
    ]

    /// Checks the rules between these settings and others.
    ///
    /// - Throws: ``SettingsError``
    package func validate(_ reader: SettingsReader, _ sharing: SharingSettings) throws {
        if requiresSignature, sharing.signer == nil {
            throw reader.error(
                "callbacks.require_signature",
                "needs sharing.signing_key or sharing.verification_keys: without a key no signature is valid."
            )
        }
        guard let userIDArgument else { return }
        try reader.requireSigned([userIDArgument], in: "callbacks.user_id_argument")
        if sharing.statisticsArgs.contains(userIDArgument) {
            throw reader.error(
                "sharing.statistics_args",
                "must not contain callbacks.user_id_argument: statistics are kept after the user is erased."
            )
        }
    }
}
