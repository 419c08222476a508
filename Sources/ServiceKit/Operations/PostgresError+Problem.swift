package import HTTPServer
internal import HTTPTypes
package import Postgres

/// The response to a caller whose request failed with a database error.
extension PostgresError: ProblemConvertible {
    package var problem: Problem {
        guard isTransient else {
            return Problem(
                .internalServerError,
                "Internal error. The server's log has the details under the request's id."
            )
        }
        return Problem(
            of: .databaseUnavailable,
            "The database is unavailable. Try again.",
            headerFields: [.retryAfter: "1"]
        )
    }

    /// Whether the database is unavailable or overloaded, so that a retry may succeed.
    package var isTransient: Bool {
        switch code {
        case .unavailable, .connectionLost, .timedOut, .overloaded: true
        case .server, .invalidParameter, .decoding, .migration, .settings: false
        }
    }
}
