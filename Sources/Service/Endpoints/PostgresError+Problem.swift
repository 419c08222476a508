package import HTTPServer
import HTTPTypes
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

    /// Whether the database is unavailable, unusable or overloaded, so that a retry may succeed.
    package var isTransient: Bool {
        switch code {
        case .unavailable, .connectionLost, .timedOut, .overloaded, .standby, .unsuitable: true
        case .server, .invalidParameter, .decoding, .migration, .settings: false
        }
    }

    /// Whether the database was unable to execute any statement: no connection, timeout, overload, or one of the
    /// SQLSTATE classes connection exception (08), insufficient resources (53) and operator intervention (57).
    /// Deadlocks (40) count too, since they are transient.
    package var isOutage: Bool {
        isTransient || ["08", "40", "53", "57"].contains(sqlStateClass)
    }
}
