/// The prepared statements of one connection, including those in preparation.
///
/// A prepared statement belongs to its connection. Pure: the connection prepares the statements.
struct StatementCache {
    /// A text and the types of its parameters: `$1` as `text` makes another statement than `$1` as `bigint`.
    struct Key: Hashable {
        let statement: StatementText
        let types: [UInt32]

        func hash(into hasher: inout Hasher) {
            // The text itself is left out: its thousands of bytes would be hashed for each statement that is sent. Its
            // length and the number of types distinguish nearly all keys, and `==` distinguishes the rest.
            hasher.combine(statement.text.utf8.count)
            hasher.combine(types.count)
        }
    }

    enum Use: Equatable {
        /// The statement is prepared, or will be before a command that is sent now is run.
        case prepared(name: String)
        /// Prepare the statement under this name first.
        case prepare(name: String)
        /// The cache is full: run the statement without preparing it.
        case unprepared
    }

    /// The maximum number of statements. The source code has some dozens of them. A caller that assembles texts at run
    /// time fills the cache and then pays for parsing each time, but the server's memory stays bounded.
    static let capacity = 512

    private var names: [Key: String] = [:]
    /// The errors of failed preparations. Commands that were sent behind such a preparation only learn that the
    /// statement does not exist.
    private var failures: [Key: PostgresError] = [:]
    /// How often each name was used. An evicted statement may still exist on the server.
    private var uses: [String: Int] = [:]

    /// Returns how to run `key`. The caller must prepare the statement if the result says so.
    mutating func use(_ key: Key) -> Use {
        if let name = names[key] { return .prepared(name: name) }
        guard names.count < Self.capacity else { return .unprepared }
        let name = name(for: key.statement)
        names[key] = name
        failures[key] = nil
        return .prepare(name: name)
    }

    /// Returns the declared name, with a number if it was used before: after a failure, or with parameters of other
    /// types.
    private mutating func name(for statement: StatementText) -> String {
        let name = statement.declaration?.name ?? "statement"
        uses[name, default: 0] += 1
        guard let number = uses[name], number > 1 else { return name }
        return "\(name)_\(number)"
    }

    /// Records that preparing a statement failed.
    mutating func failed(_ key: Key, _ error: PostgresError) {
        names[key] = nil
        if failures.count >= Self.capacity { failures = [:] }
        failures[key] = error
    }

    /// Evicts a statement after a command failed with `error`, because the prepared statement does not exist or is out
    /// of date. Returns the cause of the command's failure.
    mutating func evict(_ key: Key, after error: PostgresError) -> PostgresError {
        names[key] = nil
        return failures[key] ?? error
    }
}
