package import HTTPServer
internal import HTTPTypes
package import Postgres

/// What a caller is told when the database does not answer.
extension PostgresError: ProblemConvertible {
    package var problem: Problem {
        switch code {
        case .unavailable, .connectionLost, .timedOut, .overloaded:
            Problem(
                .serviceUnavailable,
                kind: "database-unavailable",
                "The database does not answer at the moment. Try again.",
                headerFields: [.retryAfter: "1"]
            )
        default:
            Problem(.internalServerError, "Something went wrong here. The log has the rest under the request's id.")
        }
    }
}
