package import HTTPServer
internal import HTTPTypes
package import Postgres

/// What a caller is told when the database does not answer.
extension PostgresError: ProblemConvertible {
    package var problem: Problem {
        guard isTransient else {
            return Problem(
                .internalServerError,
                "Something went wrong here. The log has the rest under the request's id."
            )
        }
        return Problem(
            .serviceUnavailable,
            kind: "database-unavailable",
            "The database does not answer at the moment. Try again.",
            headerFields: [.retryAfter: "1"]
        )
    }

    /// The database is away, or busy; it may be back the next moment.
    var isTransient: Bool {
        switch code {
        case .unavailable, .connectionLost, .timedOut, .overloaded: true
        case .server, .invalidParameter, .decoding, .migration, .settings: false
        }
    }
}
