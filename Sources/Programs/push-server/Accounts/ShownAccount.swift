import JSON

/// An account, parsed from the server's JSON. Pure.
struct ShownAccount {
    /// The members in the order in which `show` prints them.
    private static let members = [
        "user_id", "state", "reason", "scopes", "app_key", "refreshed_by", "access_token_ends_at",
        "refresh_token_ends_at", "created_at", "linked_at", "refreshed_at",
    ]
    /// The members that `list` prints.
    private static let columns = ["user_id", "state", "reason", "refreshed_by", "refresh_token_ends_at", "linked_at"]

    /// The first row of the table that `list` prints.
    static let head = ["user", "state", "reason", "refreshed by", "refresh token ends", "last login"]

    /// The members as text, without those that are null or empty.
    private let texts: [String: String]

    /// - Throws: ``CommandFailure`` if the JSON is not an account, as from another server or version.
    init(_ json: JSONValue) throws {
        guard json["user_id"]?.string != nil, json["state"]?.string != nil else {
            throw CommandFailure(
                "The response is not an account in the expected form. Is the server of another version?"
            )
        }
        var texts: [String: String] = [:]
        for name in Self.members {
            let list = json[name]?.array?.compactMap(\.string).joined(separator: " ")
            guard let text = json[name]?.string ?? list, !text.isEmpty else { continue }
            texts[name] = Text.printable(text)
        }
        self.texts = texts
    }

    /// The account as a row of the table that `list` prints.
    var row: [String] { Self.columns.map { texts[$0] ?? "" } }

    /// The rows that `show` prints, one for each member.
    var details: [[String]] { Self.members.compactMap { name in texts[name].map { [name, $0] } } }
}
