import EventLoop

/// A parameter of PostgreSQL that the statements rely on, whatever the role, the database and the server have as its
/// default.
///
/// The parameters are no part of the startup packet: PgBouncer rejects its `options`, and
/// `default_transaction_read_only` in it makes libpq take a primary for a server that is read-only
/// (`target_session_attrs=read-write`). A session therefore sets them in its first statement: see ``SessionOpening``.
///
/// All other parameters are left to the operator. They decide where data is stored (`default_tablespace`), what
/// survives a crash (`synchronous_commit`), which privileges the session has (`role`), how much memory a statement uses
/// (`work_mem`), how fast it is, and what is logged, but not what a statement means. `default_transaction_read_only`
/// stays on where it is on: clouds turn it on when a disk is full.
struct SessionParameter: Sendable, Equatable {
    enum Rule: Sendable {
        /// The session sets the value.
        case pinned
        /// The session sets the value, unless `options` of the connection string has another one.
        case preset
        /// Only a superuser may set it. A connection with another value is refused.
        case required
    }

    let name: String
    let value: String
    let rule: Rule

    private init(_ name: String, _ value: String, _ rule: Rule = .pinned) {
        self.name = name
        self.value = value
        self.rule = rule
    }

    /// The time after which PostgreSQL ends a transaction whose client does nothing, and so releases its locks. No
    /// transaction waits for anything but the database, so the client is stopped or has no network. Shorter than a lease:
    /// when the lease of a stopped server ends, its transactions no longer keep others from its work.
    private static let idleTransactionTimeout = Duration.seconds(10)

    /// The parameters of a connection with `settings`. Those that a version of PostgreSQL does not have are left out.
    static func all(_ settings: PostgresSettings) -> [SessionParameter] {
        transactions(isReadOnly: settings.isReadOnly) + timeouts(settings.statementTimeout) + texts + meanings + session
            + plans(isPlannedOnce: settings.plansOnce)
    }

    /// A statement sees what others have committed before it, which the guards of state changes rely on. A stricter
    /// level fails statements (SQLSTATE 40001) instead of letting them wait, and a deferrable transaction waits to
    /// begin.
    private static func transactions(isReadOnly: Bool) -> [SessionParameter] {
        let common = [
            SessionParameter("default_transaction_isolation", "read committed"),
            SessionParameter("default_transaction_deferrable", "off"),
            // `replica` fires no triggers and checks no foreign keys.
            SessionParameter("session_replication_role", "origin", .required),
        ]
        return isReadOnly ? common + [SessionParameter("default_transaction_read_only", "on")] : common
    }

    /// A statement waits for locks as long as it may run. Shared connections may be idle, and a transaction takes as
    /// long as its statements.
    private static func timeouts(_ statementTimeout: Duration?) -> [SessionParameter] {
        [
            SessionParameter("statement_timeout", "\(statementTimeout?.wholeMilliseconds ?? 0)"),
            SessionParameter("lock_timeout", "0"),
            SessionParameter("idle_session_timeout", "0"),
            SessionParameter("idle_in_transaction_session_timeout", "\(idleTransactionTimeout.wholeMilliseconds)"),
            // PostgreSQL 17.
            SessionParameter("transaction_timeout", "0"),
        ]
    }

    /// The texts of times, numbers, bytes and names, in results and in casts within a statement.
    private static let texts = [
        SessionParameter("DateStyle", "ISO, MDY"),
        SessionParameter("IntervalStyle", "postgres"),
        SessionParameter("TimeZone", "UTC"),
        SessionParameter("timezone_abbreviations", "Default"),
        SessionParameter("extra_float_digits", "1"),
        SessionParameter("bytea_output", "hex"),
        SessionParameter("lc_numeric", "C"),
        SessionParameter("lc_monetary", "C"),
        SessionParameter("lc_time", "C"),
        SessionParameter("quote_all_identifiers", "off"),
    ]

    /// How a text is parsed, and which rows a statement finds.
    private static let meanings = [
        SessionParameter("standard_conforming_strings", "on"),
        SessionParameter("backslash_quote", "safe_encoding"),
        SessionParameter("array_nulls", "on"),
        SessionParameter("transform_null_equals", "off"),
        // Otherwise a GIN index returns some of the rows, at random.
        SessionParameter("gin_fuzzy_search_limit", "0"),
        // A statement fails if a policy would hide rows from it, instead of deciding without them.
        SessionParameter("row_security", "off"),
        // Since the minor versions of August 2024.
        SessionParameter("restrict_nonsystem_relation_kind", ""),
        // On, they return damaged pages as empty ones.
        SessionParameter("zero_damaged_pages", "off", .required),
        SessionParameter("ignore_checksum_failure", "off", .required),
        SessionParameter("plpgsql.variable_conflict", "error", .required),
        SessionParameter("plpgsql.extra_errors", "none"),
        SessionParameter("plpgsql.extra_warnings", "none"),
        SessionParameter("plpgsql.check_asserts", "on"),
    ]

    private static let session = [
        // Warnings arrive, whose meaning the caller may need.
        SessionParameter("client_min_messages", "notice"),
        // On, any error ends the session.
        SessionParameter("exit_on_error", "off"),
    ]

    /// Every statement of the service has an index to use. Plans are based on statistics, which lag behind a table that
    /// grows by thousands of rows a second, and plans are cached. A cached plan that reads a whole table, because the
    /// table was empty once, would be disastrous.
    private static func plans(isPlannedOnce: Bool) -> [SessionParameter] {
        [
            SessionParameter("enable_seqscan", "off", .preset),
            SessionParameter("jit", "off", .preset),
            SessionParameter("plan_cache_mode", isPlannedOnce ? "force_generic_plan" : "auto", .preset),
        ]
    }
}
