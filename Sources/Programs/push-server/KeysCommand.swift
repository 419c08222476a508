import ArgumentParser
import Endpoints
import FoundationEssentials
import Identity
import Pushes
import Server

struct KeysCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys",
        abstract: "Create, list and revoke operator keys.",
        subcommands: [Create.self, List.self, Revoke.self]
    )

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create an operator key. It is shown only once.",
            discussion: """
                The key itself is not stored. If it is lost, revoke it and create another one. docs/keys.md lists the scopes of \
                each role.
                """
        )

        @OptionGroup var options: SettingsOptions

        @Option(help: "The name of the key, such as its owner's.")
        var name: String

        @Option(help: "A named set of scopes: \(roleNames).", transform: parseRole)
        var role: OperatorRole?

        @Option(
            help: "Scopes, separated by commas, in addition to those of the role: \(scopeNames).",
            transform: parseScopes
        )
        var scope: [[Scope]] = []

        @Option(help: "The number of days until the key expires. (default: it never expires)")
        var days: UInt16?

        func validate() throws {
            guard role != nil || !scope.isEmpty else { throw ValidationError("A key needs --role or --scope.") }
            guard (1...100).contains(name.count) else { throw ValidationError("--name must have 1 to 100 characters.") }
            guard days != 0 else { throw ValidationError("--days must be at least 1.") }
        }

        @concurrent
        func run() async throws {
            try await withKeyStore(options) { store in
                let expiresAt = days.map { Date() + Double($0) * 86_400 }
                let scopes = (role?.scopes ?? []).union(scope.joined())
                print(try await store.create(name: name, scopes: scopes, expiresAt: expiresAt))
            }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the keys, without the keys themselves.")

        @OptionGroup var options: SettingsOptions

        @Flag(help: "Show times in UTC, as output that is not a terminal has them. (default: in pushes.time_zone)")
        var utc = false

        @concurrent
        func run() async throws {
            try await options.withDatabase { settings, pool in
                let times: ShownTimes =
                    if Terminal.isOutput, !utc {
                        .local(try ZoneRules(try await ZoneHistory.json(settings.pushes.timeZone, pool)))
                    } else {
                        .utc
                    }
                let head = ["id", "name", "scopes", "created", "created by", "last used", "validity"]
                let rows = try await OperatorKeyStore(pool: pool).list().map { Self.row($0, times) }
                Terminal.writeTable([head] + rows)
            }
        }

        private static func row(_ key: OperatorKey, _ times: ShownTimes) -> [String] {
            let scopes = key.scopes.map(\.rawValue).sorted().joined(separator: ",")
            let made = times.text(key.createdAt)
            let lastUsed = key.lastUsedAt.map(times.text) ?? "never"
            let creator = Text.printable(key.createdBy ?? "")
            return [key.id.lowercased, Text.printable(key.name), scopes, made, creator, lastUsed, standing(key, times)]
        }

        private static func standing(_ key: OperatorKey, _ times: ShownTimes) -> String {
            if let revokedAt = key.revokedAt { return "revoked \(times.text(revokedAt))" }
            guard let expiresAt = key.expiresAt else { return "until revoked" }
            return "\(expiresAt > Date() ? "until" : "expired") \(times.text(expiresAt))"
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Revoke a key, or all keys of a name. Every server rejects them within a second."
        )

        @OptionGroup var options: SettingsOptions

        @Option(help: "The id of the key to revoke, as push-server keys list shows it.", transform: parseID)
        var id: UUID?

        @Option(help: "The name of the keys to revoke.")
        var name: String?

        func validate() throws {
            guard (id == nil) != (name == nil) else { throw ValidationError("Give either --id or --name.") }
        }

        @concurrent
        func run() async throws {
            try await withKeyStore(options) { store in
                var count = 0
                if let id { count = try await store.revoke(id: id) ? 1 : 0 }
                if let name { count = try await store.revoke(name: name) }
                guard count > 0 else {
                    throw ValidationError("There is no unrevoked key with this \(id == nil ? "name" : "id").")
                }
                print("revoked \(count)")
            }
        }
    }
}

private let scopeNames = Scope.allCases.map(\.rawValue).joined(separator: ", ")
private let roleNames = OperatorRole.allCases.map(\.rawValue).joined(separator: ", ")

private func parseScopes(_ text: String) throws -> [Scope] {
    try text.split(separator: ",", omittingEmptySubsequences: false).map { name in
        guard let scope = Scope(rawValue: String(name)) else {
            throw ValidationError("Unknown scope \(name). Allowed: \(scopeNames).")
        }
        return scope
    }
}

private func parseRole(_ text: String) throws -> OperatorRole {
    guard let role = OperatorRole(rawValue: text) else {
        throw ValidationError("Unknown role \(text). Allowed: \(roleNames).")
    }
    return role
}

private func parseID(_ text: String) throws -> UUID {
    guard let id = UUID(uuidString: text) else { throw ValidationError("\(text) is not the id of a key.") }
    return id
}

/// Runs `body` with the store of operator keys, over a connection to the database for this command.
private func withKeyStore(_ options: SettingsOptions, _ body: (OperatorKeyStore) async throws -> Void) async throws {
    try await options.withDatabase { _, pool in try await body(OperatorKeyStore(pool: pool)) }
}
