import CLibpq

/// The first statement of a session. It sets the session's parameters and reads the session's facts.
///
/// It takes one round trip, as a script without parameters: it leaves no prepared statement in a session that a pooler
/// may give to others. Its results are texts.
struct SessionOpening: Sendable {
    let text: String

    /// - Parameter pid: The process to which the parameters are limited; `nil` for any process. A pooler may give its
    ///   sessions to others, which must not inherit the parameters.
    init(_ settings: PostgresSettings, onlyIn pid: Int32?) {
        let parameters = SessionParameter.all(settings)
        let required = parameters.filter { $0.rule == .required }
        let isAllowed = pid.map { "pg_catalog.pg_backend_pid() = \($0)" } ?? "true"
        // A default of the role can make the statement wait, or cancel it: the first two lines end that. A parameter
        // that this version of PostgreSQL does not have is NULL.
        text = """
            SET TRANSACTION ISOLATION LEVEL READ COMMITTED, NOT DEFERRABLE;
            SET LOCAL statement_timeout = 0;
            SELECT /* SessionOpening */ pg_catalog.pg_backend_pid()::text,
                extract(epoch FROM pg_catalog.pg_postmaster_start_time())::text,
                pg_catalog.current_setting('server_encoding'),
                pg_catalog.pg_is_in_recovery()::text,
                pg_catalog.current_setting('transaction_read_only'),
                (
                    SELECT pg_catalog.string_agg(name || ' is ' || pg_catalog.current_setting(name), ' and ')
                    FROM (VALUES \(Self.values(required))) AS required (name, value)
                    WHERE pg_catalog.current_setting(name, true) <> value
                ),
                (
                    SELECT pg_catalog.count(pg_catalog.set_config(name, value, false))::text
                    FROM (VALUES \(Self.values(parameters.filter { $0.rule == .pinned }))) AS pinned (name, value)
                    WHERE \(isAllowed) AND pg_catalog.current_setting(name, true) IS NOT NULL
                ),
                (
                    SELECT pg_catalog.count(pg_catalog.set_config(name, value, false))::text
                    FROM (VALUES \(Self.values(parameters.filter { $0.rule == .preset }))) AS preset (name, value)
                    WHERE \(isAllowed) AND \(settings.hasOptions ? Self.isNotOfClient : "true")
                ),
                (
                    SELECT pg_catalog.set_config(
                        'search_path',
                        pg_catalog.string_agg(pg_catalog.quote_ident(schema), ', ' ORDER BY position) || ', pg_temp',
                        false
                    )
                    FROM pg_catalog.unnest(pg_catalog.current_schemas(false))
                        WITH ORDINALITY AS path (schema, position)
                    WHERE \(isAllowed) AND schema <> 'pg_catalog' AND NOT pg_catalog.starts_with(schema::text, 'pg_temp')
                    HAVING pg_catalog.count(*) > 0
                )
            """
    }

    private static func values(_ parameters: [SessionParameter]) -> String {
        parameters.map { "('\($0.name)', '\($0.value)')" }.joined(separator: ", ")
    }

    /// Whether the startup packet did not set a parameter. The view is slow, so it is read only if there are options.
    private static let isNotOfClient =
        "(SELECT source <> 'client' FROM pg_catalog.pg_settings WHERE pg_settings.name = preset.name)"
}

/// The facts of a session, as its first statement returns them: see ``SessionOpening``.
struct SessionFacts: Sendable, Equatable {
    /// A process of PostgreSQL, unique over all servers and their restarts.
    struct Process: Sendable, Hashable {
        let pid: Int32
        /// When its server was started, in seconds since 1970.
        let serverStart: String
    }

    let process: Process
    let encoding: String
    let isStandby: Bool
    /// Whether transactions are read-only by default, apart from what this client has set.
    let isReadOnly: Bool
    /// The values of required parameters that differ, in words; `nil` if none does.
    let wrongParameters: String?
    /// Whether the parameters are set.
    let isPinned: Bool

    /// - Throws: ``PostgresError/Code/decoding``.
    init(_ rows: PostgresRows) throws {
        guard let row = rows.first else {
            throw PostgresError(.decoding, detail: "the session's statement returned no row")
        }
        self = try row.decode { column in
            let pid = try column.next(String.self)
            guard let pid = Int32(pid) else { throw PostgresError(.decoding, detail: "the process id is no number") }
            let process = Process(pid: pid, serverStart: try column.next())
            let facts = SessionFacts(
                process: process,
                encoding: try column.next(),
                isStandby: try column.next(String.self) == "true",
                isReadOnly: try column.next(String.self) == "on",
                wrongParameters: try column.next(),
                isPinned: try column.next(String.self) != "0"
            )
            _ = try (column.next(String.self), column.next(String?.self))
            return facts
        }
    }

    private init(
        process: Process,
        encoding: String,
        isStandby: Bool,
        isReadOnly: Bool,
        wrongParameters: String?,
        isPinned: Bool
    ) {
        self.process = process
        self.encoding = encoding
        self.isStandby = isStandby
        self.isReadOnly = isReadOnly
        self.wrongParameters = wrongParameters
        self.isPinned = isPinned
    }

    /// The reason why this server cannot be used; `nil` if it can.
    ///
    /// - Parameters:
    ///   - server: The address of the server.
    ///   - mayBeStandby: Whether a standby can be used.
    func refusal(_ server: String, mayBeStandby: Bool) -> PostgresError? {
        if isStandby, !mayBeStandby {
            return PostgresError(
                .standby,
                detail:
                    "\(server) is a standby, which accepts no writes: name the primary in the database URL, or promote it"
            )
        }
        guard encoding == "UTF8" else {
            return PostgresError(
                .unsuitable,
                detail: """
                    the encoding \(encoding) cannot store every text: create the database with ENCODING 'UTF8' TEMPLATE \
                    template0
                    """
            )
        }
        guard let wrongParameters else { return nil }
        return PostgresError(
            .unsuitable,
            detail: """
                \(wrongParameters), which only a superuser may change: RESET it for the role (ALTER ROLE), the database \
                (ALTER DATABASE) or the server (ALTER SYSTEM)
                """
        )
    }
}
