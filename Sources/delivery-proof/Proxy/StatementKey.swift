/// A statement, told apart from all others by a digest of its text.
struct StatementKey: Hashable, Sendable, CustomStringConvertible {
    /// Six hexadecimal digits of a hash (FNV-1a) of the statement with its white space collapsed.
    let digest: String
    /// Its beginning, for people.
    let words: String

    init(sql: String) {
        let collapsed = sql.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        let hash = collapsed.utf8.reduce(0xCBF2_9CE4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        let digits = String(hash, radix: 16)
        digest = String((String(repeating: "0", count: 16 - digits.count) + digits).suffix(6))
        words = String(collapsed.prefix(48))
    }

    /// Whether it opens or ends a transaction: such a statement takes effect when it is executed, not at the sync behind it.
    var isTransactionControl: Bool {
        ["BEGIN", "COMMIT", "ROLLBACK"].contains(words)
    }

    var description: String { "\(digest) \"\(words)\"" }
}

/// The n-th execution of a statement since a run began, by all of its servers together.
struct Point: Hashable, Sendable, CustomStringConvertible {
    /// The digest of the statement; `*` for all statements counted together.
    let digest: String
    /// Counted from 1.
    let occurrence: Int

    init(digest: String, occurrence: Int) {
        self.digest = digest
        self.occurrence = occurrence
    }

    /// Reads `3fa1c2#4` or `*#12`.
    init?(_ text: String) {
        let parts = text.split(separator: "#", maxSplits: 1)
        guard parts.count == 2, let occurrence = Int(parts[1]), occurrence > 0 else { return nil }
        self.init(digest: String(parts[0]), occurrence: occurrence)
    }

    var description: String { "\(digest)#\(occurrence)" }
}
