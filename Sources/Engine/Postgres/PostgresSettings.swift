import CLibpq
import EventLoop
import Glibc
import Locking
import Net

/// The connection settings of a database.
///
/// The parameters that each session sets are those of ``SessionParameter``.
///
/// The printed form contains only a short list of the connection string's parameters, without the password.
package struct PostgresSettings: Sendable {
    /// The timeout of an attempt to connect to one address, including handshakes, and of the look-up of host names before
    /// it. `connect_timeout` of the connection string overrides it. Short, since it passes before the next address is tried.
    package var connectTimeout: Duration = .seconds(3)
    /// The time after which the server cancels a statement; `nil` for no limit. If the server does not respond at all,
    /// the client drops the connection ``answerGrace`` later.
    package var statementTimeout: Duration? = .seconds(5)
    /// The longest time that a statement, or a caller that needs an exclusive connection, may wait before anything is
    /// sent.
    package var waitTimeout: Duration = .seconds(5)
    /// The number of connections for each loop that its reads share, in pipeline mode.
    package var readConnections = 1
    /// The number of connections for each loop that its writes share, in pipeline mode.
    ///
    /// They are separate from the connections for reads, so that no read waits behind a commit. With two of them, a
    /// write that waits for a lock does not block all others, and the server flushes the commits of both together.
    package var writeConnections = 2
    /// The maximum number of connections for each loop that transactions and scripts lease. Each is opened when it is
    /// first needed, and closed after ``exclusiveIdleTime``. The pools of a server may share fewer: ``ExclusivePlaces``.
    package var exclusiveConnections = Self.exclusivePerLoop
    static let exclusivePerLoop = 4
    /// The time after which a connection that no transaction uses is closed.
    var exclusiveIdleTime: Duration = .seconds(60)
    /// The name in `pg_stat_activity`, unless the connection string sets one.
    package var applicationName = "push-server"
    /// The idle time before the kernel probes the peer. ``keepAliveInterval`` is the time between two probes.
    package var keepAliveIdle: Duration = .seconds(30)
    package var keepAliveInterval: Duration = .seconds(10)
    /// The longest time that sent bytes may stay unacknowledged before the kernel drops the connection.
    package var tcpUserTimeout: Duration = .seconds(15)

    /// The time that the client waits beyond ``statementTimeout``. It covers the network round trip, so that the
    /// server's own timeout comes first.
    var answerGrace: Duration = .seconds(2)

    /// Whether the server may be a standby. Nothing can be changed through the connections then.
    package var isReplica = false {
        didSet { isReadOnly = isReplica }
    }

    /// Whether the server rejects statements that change something.
    var isReadOnly = false

    /// Whether the server plans a statement only once, for all parameters.
    ///
    /// A write has only one plan, a search by key, and planning it each time costs more than running it. Without this
    /// setting the server plans statements with arrays each time, since it estimates a higher cost for a plan that does
    /// not know their length. A read with several conditions has more than one possible plan.
    var plansOnce = false

    /// The resolver of host names.
    var resolver = NameResolver.system

    /// Shared by all copies of these settings.
    let addresses = Locked(AddressPreferences())

    /// The parameters of the connection string, as libpq parsed them.
    private(set) var connection: [String: String]

    /// Parses a connection string in either of libpq's forms: `postgresql://user@host:port/database?parameter=value`,
    /// or `host=… dbname=…` (libpq manual, "Connection Strings").
    ///
    /// - Throws: ``PostgresError/Code/settings``. The error does not quote the string, which may contain a password.
    package init(url: String) throws(PostgresError) {
        var message: UnsafeMutablePointer<CChar>?
        guard let options = PQconninfoParse(url, &message) else {
            defer { PQfreemem(message) }
            throw PostgresError(.settings, detail: Self.rejection(of: url, message.map { String(cString: $0) } ?? ""))
        }
        defer { PQconninfoFree(options) }
        connection = [:]
        var option = options
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val { connection[String(cString: keyword)] = String(cString: value) }
            option += 1
        }
        let ports = (connection["port"] ?? "").split(separator: ",")
        guard ports.allSatisfy({ UInt16($0).map { $0 > 0 } ?? false }) else {
            throw PostgresError(.settings, detail: "a port must be a number from 1 to 65535")
        }
        for (keyword, values) in Self.choices {
            guard let value = connection[keyword], !value.isEmpty, !values.contains(value) else { continue }
            throw PostgresError(
                .settings,
                detail: "the value of the parameter \(keyword) must be one of \(values.joined(separator: ", "))"
            )
        }
        // libpq waits forever for 0, and never less than 2 s (libpq manual, "connect_timeout").
        if let seconds = connection["connect_timeout"].flatMap({ Int32($0) }), seconds > 0 {
            connectTimeout = .seconds(max(2, seconds))
        }
    }

    /// The hosts to try, in order. A single one without a host or an address stands for libpq's defaults, and for lists
    /// that do not match, which libpq reports.
    var hosts: [PostgresAddress] {
        func list(_ keyword: String, _ variable: String) -> [String] {
            let list = connection[keyword] ?? Self.environment(variable) ?? ""
            return list.isEmpty ? [] : list.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        }
        let names = list("host", "PGHOST")
        let numeric = list("hostaddr", "PGHOSTADDR")
        let ports = list("port", "PGPORT")
        let count = max(1, numeric.isEmpty ? names.count : numeric.count)
        guard numeric.isEmpty || names.isEmpty || names.count == count, ports.count <= 1 || ports.count == count else {
            return [PostgresAddress()]
        }
        return (0..<count).map { index in
            let address = index < numeric.count ? numeric[index] : ""
            return PostgresAddress(
                host: index < names.count ? names[index] : nil,
                hostaddr: address.isEmpty ? nil : address,
                port: ports.count > 1 ? ports[index] : ports.first
            )
        }
    }

    /// Whether the connection string names more than one host. One of them may be the primary after a failover.
    package var hasSeveralHosts: Bool {
        let given =
            connection["hostaddr"] ?? Self.environment("PGHOSTADDR") ?? connection["host"] ?? Self.environment("PGHOST")
        return given?.contains(",") ?? false
    }

    /// Whether the startup packet has options of the operator.
    var hasOptions: Bool { connection["options"] ?? Self.environment("PGOPTIONS") != nil }

    /// The servers and the database of a connection string. Equal for settings that differ in other respects.
    var destination: Destination { Destination(connection: connection) }

    struct Destination: Hashable {
        let connection: [String: String]
    }

    /// Whether a host is remote: neither a directory of Unix sockets nor a loopback address.
    package var isRemote: Bool {
        let given =
            connection["hostaddr"] ?? Self.environment("PGHOSTADDR") ?? connection["host"] ?? Self.environment("PGHOST")
        return (given ?? "").split(separator: ",").contains { host in
            !host.hasPrefix("/") && !host.hasPrefix("@") && !host.hasPrefix("127.") && host != "::1"
                && host != "localhost"
        }
    }

    /// The effective `sslmode` of libpq, which decides whether TLS is required and verified.
    package var tlsMode: String {
        if connection["sslrootcert"] ?? Self.environment("PGSSLROOTCERT") == "system" { return "verify-full" }
        return connection["sslmode"] ?? Self.environment("PGSSLMODE") ?? "prefer"
    }

    static func environment(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }

    /// Returns the keywords and values for `PQconnectStartParams`.
    ///
    /// - Parameter address: One of the addresses of ``resolve(on:_:)``, the only one that libpq tries.
    func parameters(_ address: PostgresAddress) -> [(keyword: String, value: String)] {
        var parameters = [
            "application_name": applicationName,
            // GSSAPI encryption would make libpq call Kerberos servers and block the loop.
            "gssencmode": "disable",
            "keepalives_idle": "\(keepAliveIdle.components.seconds)",
            "keepalives_interval": "\(keepAliveInterval.components.seconds)",
            "keepalives_count": "3",
            "tcp_user_timeout": "\(tcpUserTimeout.wholeMilliseconds)",
        ]
        parameters.merge(connection) { _, given in given }
        parameters["client_encoding"] = "UTF8"
        if isReplica {
            // The variable is that of the primary.
            parameters["target_session_attrs"] = parameters["target_session_attrs"] ?? "any"
        } else if hasSeveralHosts, parameters["target_session_attrs"] == nil,
            Self.environment("PGTARGETSESSIONATTRS") == nil
        {
            // With several hosts, libpq skips standbys. A single standby is accepted here and refused by the session, which
            // can say that it is one.
            parameters["target_session_attrs"] = "primary"
        }
        if let host = address.host { parameters["host"] = host }
        if let hostaddr = address.hostaddr { parameters["hostaddr"] = hostaddr }
        if let port = address.port { parameters["port"] = port }
        return parameters.map { (keyword: $0.key, value: $0.value) }
    }
}

extension PostgresSettings: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The parameters that may be printed. All others are left out, since a parameter of a later version may be a
    /// secret.
    private static let printable = ["host", "hostaddr", "port", "dbname", "user", "sslmode", "application_name"]

    package var description: String {
        let shown = Self.printable.compactMap { keyword in connection[keyword].map { "\(keyword)=\($0)" } }
        let masked = connection["password"] == nil ? [] : ["password=…"]
        return "PostgresSettings(\((shown + masked).joined(separator: " ")))"
    }

    package var debugDescription: String { description }

    package var customMirror: Mirror { Mirror(self, children: ["connection": description]) }
}
