internal import CLibpq
internal import Glibc

/// Where the database is and how it is spoken to.
///
/// Prints without its password, and without anything else of the connection string that is not on a short list.
package struct PostgresSettings: Sendable {
    /// How long an attempt to connect may take, host names and handshakes included.
    package var connectTimeout: Duration = .seconds(5)
    /// How long a statement may run before the server cancels it; `nil` for ever. The client itself gives up
    /// ``answerGrace`` later and drops the connection, for a server that does not answer at all.
    package var statementTimeout: Duration? = .seconds(5)
    /// How long a statement, or a caller that wants a connection of its own, may wait before anything is sent.
    package var waitTimeout: Duration = .seconds(5)
    /// Connections a loop on which all its reads travel, in pipeline mode.
    package var sharedConnections = 1
    /// Connections a loop on which all its writes travel, in pipeline mode. Others than those for reads, so that no
    /// read waits behind a commit; two, so that one write that waits for a lock does not hold up all, and the server
    /// flushes the commits of both together.
    package var writeConnections = 2
    /// Connections a loop, at most, for transactions and scripts. They are opened when they are first wanted.
    package var exclusiveConnections = 4
    /// Connections a loop, of all kinds, at most.
    package var maximumConnections: Int { sharedConnections + writeConnections + exclusiveConnections }
    /// What `pg_stat_activity` calls us, unless the connection string says otherwise.
    package var applicationName = "push-server"
    /// Silence after which the kernel asks whether the peer is still there, and the time between its questions.
    package var keepAliveIdle: Duration = .seconds(30)
    package var keepAliveInterval: Duration = .seconds(10)
    /// How long sent bytes may stay unacknowledged before the kernel gives the connection up.
    package var tcpUserTimeout: Duration = .seconds(15)

    /// What the client waits on top of ``statementTimeout``: for the way there and back, so that the server comes
    /// first.
    var answerGrace: Duration = .seconds(2)

    /// Whether the server is to refuse statements that change something.
    var isReadOnly = false

    /// Whether the server is to plan a statement once, whatever its parameters. There is one way to run a write: by its key. To plan it
    /// each time costs more than to run it, and that is what the server does with arrays, for a plan that does not know their length
    /// seems worse to it. What is read by several conditions has more than one way.
    var plansOnce = false

    /// The connection string's own parameters, as libpq has parsed them.
    private var connection: [String: String]

    /// Takes a connection string in either of libpq's forms: `postgresql://user@host:port/database?parameter=value`, or
    /// `host=… dbname=…` (libpq manual, "Connection Strings").
    ///
    /// - Throws: ``PostgresError/Code/settings``. The error does not quote the string: it may hold a password.
    package init(url: String) throws(PostgresError) {
        guard let options = PQconninfoParse(url, nil) else {
            throw PostgresError(
                .settings,
                detail: "neither a postgresql:// URL nor a list of keyword=value that libpq understands"
            )
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
            throw PostgresError(.settings, detail: "a port is not a number from 1 to 65535")
        }
    }

    /// The hosts to try, in order: names, addresses, or directories of Unix sockets. Empty for libpq's default
    /// directory.
    ///
    /// Empty also when the string gives addresses already.
    var hostsToResolve: [String] {
        guard connection["hostaddr"] == nil else { return [] }
        let hosts = connection["host"] ?? Self.environment("PGHOST") ?? ""
        return hosts.isEmpty ? [] : hosts.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
    }

    /// Whether a host is another machine: neither a directory of Unix sockets nor a loopback address.
    package var isRemote: Bool {
        let given =
            connection["hostaddr"] ?? Self.environment("PGHOSTADDR") ?? connection["host"] ?? Self.environment("PGHOST")
        return (given ?? "").split(separator: ",").contains { host in
            !host.hasPrefix("/") && !host.hasPrefix("@") && !host.hasPrefix("127.") && host != "::1"
                && host != "localhost"
        }
    }

    /// libpq's `sslmode`: how far TLS is insisted on.
    package var tlsMode: String {
        if connection["sslrootcert"] ?? Self.environment("PGSSLROOTCERT") == "system" { return "verify-full" }
        return connection["sslmode"] ?? Self.environment("PGSSLMODE") ?? "prefer"
    }

    private static func environment(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }

    /// The keywords and values for `PQconnectStartParams`.
    ///
    /// - Parameter addresses: for each of ``hostsToResolve``, its numeric addresses: none for a directory, `nil` for a
    ///   name that nobody knows, which is left out. A host with several addresses is listed once for each, as libpq
    ///   wants it.
    func parameters(addresses: [[String]?]) -> [(keyword: String, value: String)] {
        var parameters = [
            "application_name": applicationName,
            // Kerberos would ask its servers while the loop waits.
            "gssencmode": "disable",
            "keepalives_idle": "\(keepAliveIdle.components.seconds)",
            "keepalives_interval": "\(keepAliveInterval.components.seconds)",
            "keepalives_count": "3",
            "tcp_user_timeout": "\(milliseconds(tcpUserTimeout))",
        ]
        parameters.merge(connection) { _, given in given }
        parameters["client_encoding"] = "UTF8"
        // Every statement of a service has its index. But a plan is made of statistics, which lag behind a table that grows by
        // thousands of rows a second, and is kept: one that reads a table through because it was empty once would be fatal.
        var options = ["-c enable_seqscan=off", "-c jit=off"]
        if plansOnce { options.append("-c plan_cache_mode=force_generic_plan") }
        // Behind ours, so that the URL has the last word.
        if let own = connection["options"] { options.append(own) }
        if let statementTimeout { options.append("-c statement_timeout=\(milliseconds(statementTimeout))") }
        if isReadOnly { options.append("-c default_transaction_read_only=on") }
        parameters["options"] = options.joined(separator: " ")
        if addresses.contains(where: { $0?.isEmpty == false }) {
            let ports = (connection["port"] ?? "").split(separator: ",", omittingEmptySubsequences: false)
            var hosts: [String] = []
            var numeric: [String] = []
            var repeatedPorts: [String] = []
            for (index, (host, found)) in zip(hostsToResolve, addresses).enumerated() {
                guard let found else { continue }
                for address in found.isEmpty ? [""] : found {
                    hosts.append(host)
                    numeric.append(address)
                    if ports.count > 1, index < ports.count { repeatedPorts.append(String(ports[index])) }
                }
            }
            parameters["host"] = hosts.joined(separator: ",")
            parameters["hostaddr"] = numeric.joined(separator: ",")
            if ports.count > 1 { parameters["port"] = repeatedPorts.joined(separator: ",") }
        }
        return parameters.map { (keyword: $0.key, value: $0.value) }
    }

    private func milliseconds(_ duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }
}

extension PostgresSettings: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// What may be printed: everything else is left out, for a parameter of tomorrow may be a secret too.
    private static let printable = ["host", "hostaddr", "port", "dbname", "user", "sslmode", "application_name"]

    package var description: String {
        let shown = Self.printable.compactMap { keyword in connection[keyword].map { "\(keyword)=\($0)" } }
        let masked = connection["password"] == nil ? [] : ["password=…"]
        return "PostgresSettings(\((shown + masked).joined(separator: " ")))"
    }

    package var debugDescription: String { description }

    package var customMirror: Mirror { Mirror(self, children: ["connection": description]) }
}
