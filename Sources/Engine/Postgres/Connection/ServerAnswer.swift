import CLibpq

/// The content of one `PGresult`.
enum ServerAnswer {
    /// The result of a command.
    case outcome(Outcome<PostgresRows>)
    /// The end of a sync group.
    case sync
    /// The statement is a `COPY … FROM STDIN`, and the server waits for its data.
    case copyIn
    /// The statement is another kind of `COPY`, which is not supported.
    case otherCopy

    /// Interprets `result` and takes ownership of it.
    ///
    /// - Parameter statement: The statement that the result belongs to, for the log.
    init(owning result: OpaquePointer, statement: StatementText?) {
        switch PQresultStatus(result) {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY, PGRES_SINGLE_TUPLE:
            self = .outcome(.rows(PostgresRows(owning: result)))
            return
        case PGRES_PIPELINE_SYNC: self = .sync
        case PGRES_PIPELINE_ABORTED: self = .outcome(.aborted)
        case PGRES_COPY_IN: self = .copyIn
        case PGRES_COPY_OUT, PGRES_COPY_BOTH: self = .otherCopy
        default: self = .outcome(.failed(Self.error(of: result, statement: statement)))
        }
        PQclear(result)
    }

    private static func error(of result: OpaquePointer, statement: StatementText?) -> PostgresError {
        // Only the primary message: the server's "detail" quotes the row, which may contain tokens.
        let primary = field(.messagePrimary, of: result)
        return .fromServer(
            sqlState: field(.sqlState, of: result),
            constraint: field(.constraintName, of: result),
            detail: primary ?? String(cString: PQresultErrorMessage(result)),
            statement: statement?.description,
            position: field(.statementPosition, of: result).flatMap { Int($0) }
        )
    }

    /// The fields of an error or a notice: `PG_DIAG_…` in `postgres_ext.h`, which Swift cannot import.
    enum Field: Unicode.Scalar {
        case sqlState = "C"
        case messagePrimary = "M"
        case constraintName = "n"
        case statementPosition = "P"
        /// The function of PostgreSQL that raised it.
        case sourceFunction = "R"
    }

    static func field(_ field: Field, of result: OpaquePointer) -> String? {
        PQresultErrorField(result, Int32(field.rawValue.value)).map { String(cString: $0) }
    }
}
