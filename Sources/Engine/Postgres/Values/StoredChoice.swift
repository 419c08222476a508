/// A column that is stored as the raw value of an enumeration.
package protocol StoredChoice: PostgresDecodable, RawRepresentable<String> {}

extension StoredChoice {
    package static func decode(_ cell: PostgresCell) throws(PostgresError) -> Self {
        let name = try cell.decode(String.self)
        guard let value = Self(rawValue: name) else { throw cell.error("has an unknown value: \(name)") }
        return value
    }
}
