import ChildProcess
import FoundationEssentials
import Glibc
package import PrivatePostgres
import Subprocess
import SystemPackage
import Testing

/// Debian's PgBouncer in front of the PostgreSQL of a test.
package struct PgBouncer: Sendable {
    private static let program = "/usr/sbin/pgbouncer"
    private static let port = 6432

    /// Whether it is installed (`apt-get install pgbouncer`).
    package static var isInstalled: Bool { access(program, X_OK) == 0 }

    private let folder: String
    private let backend: String
    private let process: ChildProcess

    /// The database `postgres` through PgBouncer.
    package var url: String { "postgresql://postgres@/postgres?host=\(folder)&port=\(Self.port)" }

    /// Runs `body` with PgBouncer in a pool mode, before a cluster that runs.
    ///
    /// - Parameter settings: Settings of the section `pgbouncer`, in addition to the mode and the addresses.
    package static func with(
        _ mode: String,
        before cluster: PostgresCluster,
        settings: [String: String] = [:],
        _ body: (PgBouncer) async throws -> Void
    ) async throws {
        let url = try #require(await cluster.url)
        let port = try #require(url.split(separator: "port=").last)
        let directory = try #require(await cluster.realDirectory)
        let folder = try TemporaryFolder.make()
        let process = ChildProcess(isReady: { $0.contains("process up") }, onLine: { _ in })
        let pooler = PgBouncer(folder: folder, backend: "host=\(directory) port=\(port)", process: process)
        try pooler.write(mode, settings)
        var arguments = ["--pdeathsig=INT"]
        if geteuid() == 0 {
            // It refuses to run as root, as PostgreSQL does.
            let user = try #require(getpwnam("postgres")).pointee
            try #require(chown(folder, user.pw_uid, user.pw_gid) == 0)
            arguments += ["--reuid=\(user.pw_uid)", "--regid=\(user.pw_gid)", "--clear-groups"]
        }
        process.launch(
            .name("setpriv"),
            Arguments(arguments + ["--", program, "\(folder)/pgbouncer.ini"]),
            environment: .inherit
        )
        guard case .ready = await process.waitUntilReady(within: .seconds(60)) else {
            Issue.record("PgBouncer did not start: \(await process.lastLines)")
            return
        }
        do {
            try await body(pooler)
        } catch {
            await process.end(with: .quit, within: .seconds(10))
            throw error
        }
        await process.end(with: .quit, within: .seconds(10))
    }

    /// Sets another pool mode while it runs.
    package func change(to mode: String) async throws {
        try write(mode, [:])
        let identifier = try #require(await process.processIdentifier)
        try #require(kill(identifier, SIGHUP) == 0)
    }

    private func write(_ mode: String, _ settings: [String: String]) throws {
        var values = [
            "listen_addr": "", "unix_socket_dir": folder, "listen_port": "\(Self.port)", "auth_type": "trust",
            "auth_file": "\(folder)/users", "pool_mode": mode,
        ]
        values.merge(settings) { _, given in given }
        let lines = values.map { "\($0.key) = \($0.value)" }.joined(separator: "\n")
        try writeFile(Array("[databases]\n* = \(backend)\n[pgbouncer]\n\(lines)\n".utf8), to: "\(folder)/pgbouncer.ini")
        try writeFile(Array("\"postgres\" \"\"\n".utf8), to: "\(folder)/users")
    }
}
