// Words for errors of libpq that do not say what to do.
extension PostgresSettings {
    /// The values of parameters that libpq checks only when it connects.
    static let choices = [
        "sslmode": ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"],
        "target_session_attrs": ["any", "read-write", "read-only", "primary", "standby", "prefer-standby"],
        "channel_binding": ["disable", "prefer", "require"],
    ]

    /// The advice for parameters of other drivers.
    private static let advice = [
        "schema": schemaAdvice,
        "currentSchema": schemaAdvice,
        "search_path": schemaAdvice,
        "pool": poolAdvice,
        "pool_size": poolAdvice,
        "pool_timeout": poolAdvice,
        "connection_limit": poolAdvice,
        "pgbouncer": poolAdvice,
        "ssl": "use sslmode",
        "useSSL": "use sslmode",
        "sslaccept": "use sslmode",
    ]

    private static let schemaAdvice = "use options=-csearch_path%3DNAME, or ALTER ROLE … SET search_path"
    private static let poolAdvice = "remove it"

    /// Returns why libpq rejects a connection string. It names a parameter and never quotes a value: a part of a password
    /// may look like one.
    ///
    /// - Parameter message: The message of libpq.
    static func rejection(of url: String, _ message: String) -> String {
        if let end = url.firstRange(of: "://") {
            let scheme = url[..<end.lowerBound]
            if !["postgres", "postgresql"].contains(scheme), isName(scheme) {
                return "\(scheme):// is the URL of another driver: write postgresql://user:password@host:5432/name"
            }
            let query = url[end.upperBound...].drop { $0 != "?" }
            if query.contains("@") {
                return "a character of the user or the password must be percent-encoded: ? is %3F, @ is %40, / is %2F"
            }
        }
        if message.hasPrefix("invalid percent-encoded token") || message.hasPrefix("forbidden value %00") {
            return "a % must be followed by two hexadecimal digits, and is %25 itself"
        }
        for prefix in ["invalid URI query parameter: \"", "invalid connection option \""]
        where message.hasPrefix(prefix) {
            let name = message.dropFirst(prefix.count).prefix { $0 != "\"" }
            guard isName(name) else { break }
            let known = advice[String(name)].map { ": \($0)" } ?? ""
            return "libpq does not know the parameter \(name)\(known)"
        }
        return "neither a valid postgresql:// URL nor a valid list of keyword=value"
    }

    private static func isName(_ text: Substring) -> Bool {
        !text.isEmpty && text.utf8.count <= 32
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "+"), UInt8(ascii: ":"):
                    true
                default: false
                }
            }
    }

    /// Returns a message about a failed connection, with what to do if it does not say so.
    func explaining(_ message: String) -> String {
        if message.contains("unsupported startup parameter"), hasOptions {
            return """
                \(message) (PgBouncer before 1.20 rejects the options of the database URL: remove them, and use ALTER ROLE … \
                SET)
                """
        }
        // libpq ignores a missing certificate, but not one that it may not read.
        if message.contains("certificate file \""), message.contains("/.postgresql/"), connection["sslcert"] == nil {
            return """
                \(message) (libpq looks for a client certificate in the folder that HOME names, which may be another \
                user's: set HOME to that of the user of this process, or sslcert and sslkey in the database URL)
                """
        }
        return message
    }
}
