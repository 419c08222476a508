internal import CLibpq

/// What one `PGresult` says.
enum ServerAnswer {
    case rows(PostgresRows)
    case failed(PostgresError)
    /// Skipped, for a command before it failed.
    case aborted
    /// The end of a sync group.
    case sync
    /// The statement is a `COPY … FROM STDIN`, and the server wants its data.
    case copyIn
    /// The statement is another `COPY`, whose protocol is not spoken here.
    case otherCopy

    /// Takes ownership of `result`.
    ///
    /// - Parameter statement: the text that the result answers, for the log.
    init(owning result: OpaquePointer, statement: String?) {
        switch PQresultStatus(result) {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY, PGRES_SINGLE_TUPLE:
            self = .rows(PostgresRows(owning: result))
            return
        case PGRES_PIPELINE_SYNC: self = .sync
        case PGRES_PIPELINE_ABORTED: self = .aborted
        case PGRES_COPY_IN: self = .copyIn
        case PGRES_COPY_OUT, PGRES_COPY_BOTH: self = .otherCopy
        default: self = .failed(Self.error(of: result, statement: statement))
        }
        PQclear(result)
    }

    private static func error(of result: OpaquePointer, statement: String?) -> PostgresError {
        // Only the primary message: the server's "detail" quotes the row, and with it tokens.
        let primary = field(.messagePrimary, of: result)
        return .fromServer(
            sqlState: field(.sqlState, of: result),
            constraint: field(.constraintName, of: result),
            detail: primary ?? String(cString: PQresultErrorMessage(result)),
            statement: statement
        )
    }

    /// The fields of an error: `PG_DIAG_…` in `postgres_ext.h`, which Swift cannot import.
    private enum Field: Unicode.Scalar {
        case sqlState = "C"
        case messagePrimary = "M"
        case constraintName = "n"
    }

    private static func field(_ field: Field, of result: OpaquePointer) -> String? {
        PQresultErrorField(result, Int32(field.rawValue.value)).map { String(cString: $0) }
    }
}
