/// The statements that one connection has prepared, or is about to have.
///
/// A prepared statement belongs to its connection. Pure: the connection does the preparing.
struct StatementCache {
    /// A text together with the types of its parameters: `$1` as `text` is another statement than `$1` as `bigint`.
    struct Key: Hashable {
        let statement: StatementText
        let types: [UInt32]

        func hash(into hasher: inout Hasher) {
            // Not the text itself, whose thousands of bytes would be hashed for each statement that is sent: these tell nearly all texts
            // apart, and `==` tells the rest.
            hasher.combine(statement.text.utf8.count)
            hasher.combine(types.count)
        }
    }

    enum Use: Equatable {
        /// It is prepared, or will be by the time that a command sent now is run.
        case prepared(name: String)
        /// Prepare it under this name first.
        case prepare(name: String)
        /// The cache is full: run it without preparing.
        case unprepared
    }

    /// The texts are literals of our source, some dozens. One that assembles texts at run time fills the cache and then
    /// pays a parse each time, but the server's memory stays bounded.
    static let capacity = 512

    private var names: [Key: String] = [:]
    /// Why preparing a statement failed: commands that were sent on the strength of it only learn that it does not
    /// exist.
    private var failures: [Key: PostgresError] = [:]
    /// Every name that was ever used: one that was forgotten may still exist on the server.
    private var usedNames: Set<String> = []

    /// How to run `key`. The caller is trusted to prepare what it is told to.
    mutating func use(_ key: Key) -> Use {
        if let name = names[key] { return .prepared(name: name) }
        guard names.count < Self.capacity else { return .unprepared }
        let name = name(for: key.statement)
        names[key] = name
        failures[key] = nil
        return .prepare(name: name)
    }

    /// The declared name, with a number if it was used before: after a failure, or with parameters of other types.
    private mutating func name(for statement: StatementText) -> String {
        let base = statement.declaration?.name ?? "statement"
        var name = base
        var number = 1
        while !usedNames.insert(name).inserted {
            number += 1
            name = "\(base)_\(number)"
        }
        return name
    }

    /// Preparing it has failed.
    mutating func failed(_ key: Key, _ error: PostgresError) {
        names[key] = nil
        if failures.count >= Self.capacity { failures = [:] }
        failures[key] = error
    }

    /// A command found that what was prepared does not exist or is of no use any more, and failed with `error`: returns
    /// what the command died of in truth.
    mutating func forget(_ key: Key, after error: PostgresError) -> PostgresError {
        names[key] = nil
        return failures[key] ?? error
    }
}
