import EventLoop
import PrivatePostgres
import TestSupport
import Testing

@testable import Postgres

/// The parameters of a session, whatever the role and the database have as defaults.
@Suite struct SessionParameterTests {
    /// For each parameter that sessions set, another value that a role or a database may have.
    private static let hostile = [
        "default_transaction_isolation": "serializable",
        "default_transaction_deferrable": "on",
        "statement_timeout": "1000",
        "lock_timeout": "1",
        "idle_session_timeout": "20000",
        "idle_in_transaction_session_timeout": "20000",
        "transaction_timeout": "20000",
        "DateStyle": "German, DMY",
        "IntervalStyle": "sql_standard",
        "TimeZone": "Asia/Kathmandu",
        "timezone_abbreviations": "India",
        "extra_float_digits": "-15",
        "bytea_output": "escape",
        "lc_numeric": "C.UTF-8",
        "lc_monetary": "C.UTF-8",
        "lc_time": "C.UTF-8",
        "quote_all_identifiers": "on",
        "standard_conforming_strings": "off",
        "backslash_quote": "on",
        "array_nulls": "off",
        "transform_null_equals": "on",
        "gin_fuzzy_search_limit": "1",
        "row_security": "on",
        "restrict_nonsystem_relation_kind": "view",
        "plpgsql.extra_errors": "all",
        "plpgsql.extra_warnings": "all",
        "plpgsql.check_asserts": "off",
        "client_min_messages": "error",
        "exit_on_error": "on",
        "enable_seqscan": "on",
        "jit": "on",
        "plan_cache_mode": "force_custom_plan",
    ]

    /// The parameters that change nothing that the statements rely on, and why.
    private static let others: [(why: String, names: String)] = [
        (
            "They are of the current transaction, which begins with the defaults.",
            "transaction_deferrable transaction_isolation transaction_read_only"
        ),
        (
            "The startup packet sets them.",
            "application_name client_encoding"
        ),
        (
            "The operator's choice: where data is stored, and whether it survives a crash.",
            """
            default_table_access_method default_tablespace default_toast_compression temp_tablespaces synchronous_commit
            commit_delay commit_siblings wal_compression wal_init_zero wal_recycle wal_skip_threshold
            allow_in_place_tablespaces gin_pending_list_limit
            """
        ),
        (
            "On, it is the decision of an administrator, or of a cloud whose disk is full. Reads set it.",
            "default_transaction_read_only"
        ),
        (
            "Sessions keep the schemas that it names, in their order, after pg_catalog: see the test below.",
            "search_path"
        ),
        (
            "Plans and their costs: the same rows, sooner or later.",
            """
            backend_flush_after constraint_exclusion cpu_index_tuple_cost cpu_operator_cost cpu_tuple_cost
            cursor_tuple_fraction default_statistics_target effective_cache_size effective_io_concurrency
            enable_async_append enable_bitmapscan enable_gathermerge enable_hashagg enable_hashjoin
            enable_incremental_sort enable_indexonlyscan enable_indexscan enable_material enable_memoize
            enable_mergejoin enable_nestloop enable_parallel_append enable_parallel_hash enable_partition_pruning
            enable_partitionwise_aggregate enable_partitionwise_join enable_sort enable_tidscan force_parallel_mode
            from_collapse_limit geqo geqo_effort geqo_generations geqo_pool_size geqo_seed geqo_selection_bias
            geqo_threshold jit_above_cost jit_expressions jit_inline_above_cost jit_optimize_above_cost
            jit_tuple_deforming jit_dump_bitcode join_collapse_limit max_parallel_maintenance_workers max_parallel_workers
            max_parallel_workers_per_gather min_parallel_index_scan_size min_parallel_table_scan_size
            parallel_leader_participation parallel_setup_cost parallel_tuple_cost random_page_cost
            recursive_worktable_factor seq_page_cost synchronize_seqscans debug_discard_caches
            """
        ),
        (
            "Memory, disk space and time. A statement that has too little fails.",
            """
            hash_mem_multiplier logical_decoding_work_mem maintenance_io_concurrency maintenance_work_mem
            max_stack_depth temp_buffers temp_file_limit work_mem deadlock_timeout client_connection_check_interval
            tcp_keepalives_count tcp_keepalives_idle tcp_keepalives_interval tcp_user_timeout wal_sender_timeout
            vacuum_cost_delay vacuum_cost_limit vacuum_cost_page_dirty vacuum_cost_page_hit vacuum_cost_page_miss
            vacuum_failsafe_age vacuum_freeze_min_age vacuum_freeze_table_age vacuum_multixact_failsafe_age
            vacuum_multixact_freeze_min_age vacuum_multixact_freeze_table_age
            """
        ),
        (
            "What PostgreSQL logs and counts, and the language of its messages: errors are recognized by SQLSTATE.",
            """
            backtrace_functions compute_query_id debug_pretty_print debug_print_parse debug_print_plan
            debug_print_rewritten lc_messages log_duration log_error_verbosity log_executor_stats log_lock_waits
            log_min_duration_sample log_min_duration_statement log_min_error_statement log_min_messages
            log_parameter_max_length log_parameter_max_length_on_error log_parser_stats log_planner_stats
            log_replication_commands log_statement log_statement_sample_rate log_statement_stats log_temp_files
            log_transaction_sample_rate stats_fetch_consistency trace_notify trace_sort track_activities track_counts
            track_functions track_io_timing track_wal_io_timing update_process_title escape_string_warning
            """
        ),
        (
            "Of features that the service does not use: XML, text search, large objects, passwords, C functions.",
            """
            xmlbinary xmloption default_text_search_config lo_compat_privileges password_encryption
            dynamic_library_path extension_destdir allow_system_table_mods
            """
        ),
        (
            "The operator's code in each session.",
            "local_preload_libraries session_preload_libraries"
        ),
        (
            "Only for the recovery and the replication of PostgreSQL itself.",
            "wal_consistency_checking"
        ),
        (
            "The migrator sets it where it matters.",
            "check_function_bodies"
        ),
    ]

    private static func settings(_ url: String, as role: String = "app") throws -> PostgresSettings {
        try PostgresSettings(url: url.replacing("postgres@/postgres", with: "\(role)@/app"))
    }

    /// Runs `body` with a cluster that has a role and a database `app`, and with a pool of a superuser.
    private func withRole(_ body: (String, PostgresPool) async throws -> Void) async throws {
        try await TestDatabase.slots.with {
            try await TestCluster.with { _, url in
                try await withPool(try PostgresSettings(url: url)) { admin in
                    try await admin.write("CREATE ROLE app LOGIN")
                    try await admin.write("CREATE DATABASE app OWNER app")
                    try await body(url, admin)
                }
            }
        }
    }

    @Test("Every parameter that a session may have is set, checked, or known to change nothing")
    func complete() async throws {
        try await TestDatabase.withPool { pool, database in
            let all = SessionParameter.all(database.settings)
            var reads = database.settings
            reads.isReadOnly = true
            #expect(
                SessionParameter.all(reads).map(\.name).filter { name in !all.contains { $0.name == name } }
                    == ["default_transaction_read_only"]
            )
            #expect(Set(all.filter { $0.rule != .required }.map(\.name)) == Set(Self.hostile.keys))
            let known =
                all.map(\.name)
                + Self.others.flatMap { $0.names.split(whereSeparator: \.isWhitespace) }.map(String.init)
            #expect(Set(known).count == known.count)
            let names = try await pool.read(
                """
                SELECT name
                FROM pg_settings
                WHERE context IN ('user', 'superuser')
                    AND current_setting('server_version_num')::integer < 160000
                    AND NOT name LIKE 'plpgsql.%'
                """
            ).map { try $0.decode(String.self) }
            #expect(Set(names).subtracting(known) == [])
        }
    }

    @Test(
        "A session has its own parameters, whatever the role or the database has",
        arguments: ["ROLE app", "DATABASE app", "ROLE app IN DATABASE app"]
    )
    func pinned(owner: String) async throws {
        try await withRole { url, admin in
            for (name, value) in Self.hostile {
                // Later versions of PostgreSQL have more of them.
                let exists = try await admin.value(
                    Bool.self,
                    "SELECT current_setting($1, true) IS NOT NULL OR $1 LIKE 'plpgsql.%'",
                    [.text(name)]
                )
                if exists { try await admin.write("ALTER \(owner) SET \(name) = '\(value)'") }
            }
            var settings = try Self.settings(url)
            settings.statementTimeout = .milliseconds(4321)
            for kind in ["read", "write", "transaction"] {
                settings.isReadOnly = kind == "read"
                settings.plansOnce = kind == "write"
                let expected = SessionParameter.all(settings)
                try await withPool(settings) { pool in
                    for parameter in expected where parameter.rule != .required {
                        let query = """
                            SELECT coalesce(
                                (SELECT setting FROM pg_settings WHERE name = '\(parameter.name)'),
                                current_setting('\(parameter.name)', true),
                                'none of this version'
                            )
                            """
                        let rows =
                            switch kind {
                            case "read": try await pool.read(query)
                            case "write": try await pool.write(query)
                            default: try await pool.withTransaction { try await $0.query(query) }
                            }
                        let value = try #require(rows.first).decode(String.self)
                        #expect(
                            [parameter.value, "none of this version"].contains(value),
                            "\(parameter.name) of a \(kind)"
                        )
                    }
                }
            }
        }
    }

    @Test("Options of the connection string choose other plans, but neither time-outs nor what a statement means")
    func options() async throws {
        try await withRole { url, _ in
            let options = "-c%20enable_seqscan%3Don%20-c%20statement_timeout%3D1000%20-c%20TimeZone%3DAsia/Kathmandu"
            try await withPool(try Self.settings("\(url)&options=\(options)")) { pool in
                for (name, value) in [
                    ("enable_seqscan", "on"), ("jit", "off"), ("statement_timeout", "5s"), ("TimeZone", "UTC"),
                ] {
                    let used = try await pool.value(String.self, "SELECT current_setting('\(name)')")
                    #expect(used == value)
                }
            }
        }
    }

    @Test("A search path keeps its schemas, but none of them hides what PostgreSQL or the schema itself defines")
    func searchPath() async throws {
        try await withRole { url, admin in
            try await withPool(try Self.settings(url, as: "postgres")) { app in
                try await app.write("CREATE SCHEMA first")
                try await app.write("CREATE SCHEMA \"Second one\"")
                try await app.write(
                    "CREATE FUNCTION first.lower(text) RETURNS text LANGUAGE sql AS 'SELECT ''hostile'''"
                )
                try await app.write("GRANT ALL ON SCHEMA first, \"Second one\" TO app")
            }
            try await admin.write("ALTER ROLE app SET search_path = first, missing, \"Second one\", pg_catalog")
            try await withPool(try Self.settings(url)) { pool in
                let path = try await pool.value(String.self, "SELECT current_setting('search_path')")
                #expect(path == #"first, "Second one", pg_temp"#)
                #expect(try await pool.value(String.self, "SELECT lower('A')") == "a")
                try await pool.withTransaction { transaction in
                    try await transaction.query("CREATE TABLE devices AS SELECT 'real' AS name")
                    try await transaction.query("CREATE TEMPORARY TABLE devices AS SELECT 'temporary' AS name")
                    let rows = try await transaction.query("SELECT name FROM devices")
                    #expect(try rows.first?.decode(String.self) == "real")
                }
            }
        }
    }

    @Test(
        "A parameter that only a superuser may set is checked, and its name is the error",
        arguments: [
            "session_replication_role = replica", "zero_damaged_pages = on", "ignore_checksum_failure = on",
            "plpgsql.variable_conflict = use_column",
        ]
    )
    func required(setting: String) async throws {
        try await withRole { url, admin in
            try await admin.write("ALTER DATABASE app SET \(setting)")
            try await withPool(try Self.settings(url)) { pool in
                try await expectRefusal(pool, .unsuitable, setting.replacing(" =", with: " is"))
                try await admin.write("ALTER DATABASE app RESET ALL")
                // The next attempt to connect finds it corrected.
                try await eventually("the session begins") { (try? await pool.read("SELECT 1")) != nil }
            }
        }
    }
}
