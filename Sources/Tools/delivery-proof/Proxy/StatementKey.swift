/// A statement, identified by a digest of its text.
struct StatementKey: Hashable, Sendable, CustomStringConvertible {
    /// The last six hexadecimal digits of an FNV-1a hash of the statement with its white space collapsed.
    let digest: String
    /// The beginning of the statement, for human readers.
    let words: String

    init(sql: String) {
        let collapsed = sql.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        let hash = collapsed.utf8.reduce(0xCBF2_9CE4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        let digits = String(hash, radix: 16)
        digest = String((String(repeating: "0", count: 16 - digits.count) + digits).suffix(6))
        words = String(collapsed.prefix(48))
    }

    /// Whether the statement opens or ends a transaction. It then takes effect when it is executed, not at the next
    /// sync.
    var isTransactionControl: Bool {
        ["BEGIN", "COMMIT", "ROLLBACK"].contains(words.prefix { $0 != " " })
    }

    /// Whether it is the first statement of a session, which sets the session's parameters.
    var beginsSession: Bool { words.hasPrefix("SET TRANSACTION ISOLATION LEVEL") }

    var description: String { "\(digest) \"\(words)\"" }
}

/// The n-th execution of a statement since a run began, counted over all servers of the run.
struct Point: Hashable, Sendable, CustomStringConvertible {
    /// The digest of the statement; `*` counts all statements together, and `kakao` the sends to Kakao.
    let digest: String

    /// Returns the n-th send to Kakao since a run began.
    static func send(_ occurrence: Int) -> Point { Point(digest: "kakao", occurrence: occurrence) }
    /// The number of the execution, counted from 1.
    let occurrence: Int

    init(digest: String, occurrence: Int) {
        self.digest = digest
        self.occurrence = occurrence
    }

    /// Parses a text such as `3fa1c2#4` or `*#12`.
    init?(_ text: String) {
        let parts = text.split(separator: "#", maxSplits: 1)
        guard parts.count == 2, let occurrence = Int(parts[1]), occurrence > 0 else { return nil }
        self.init(digest: String(parts[0]), occurrence: occurrence)
    }

    var description: String { "\(digest)#\(occurrence)" }
}
