import CLibpq

/// The result of a statement: its rows, and the number of rows that it wrote.
///
/// It owns libpq's result and clears it when it is deinitialized. A result never changes, so that it may be read from
/// any thread (libpq manual, "Behavior in Threaded Programs").
package final class PostgresRows: @unchecked Sendable {
    private let result: OpaquePointer
    /// The number of rows.
    package let count: Int
    /// The number of columns.
    package let columnCount: Int

    /// Takes ownership of a result.
    init(owning result: OpaquePointer) {
        self.result = result
        count = Int(PQntuples(result))
        columnCount = Int(PQnfields(result))
    }

    deinit {
        PQclear(result)
    }

    /// The number of rows that an `INSERT`, `UPDATE` or `DELETE` wrote, or that a `SELECT` returned; 0 for other
    /// statements.
    package var affectedRows: Int {
        guard let digits = PQcmdTuples(result) else { return 0 }
        return Int(String(cString: digits)) ?? 0
    }

    /// The server's command tag, such as `INSERT 0 3` or `COMMIT`.
    var commandTag: String {
        PQcmdStatus(result).map { String(cString: $0) } ?? ""
    }

    func name(ofColumn column: Int) -> String {
        PQfname(result, Int32(column)).map { String(cString: $0) } ?? "\(column)"
    }

    func type(ofColumn column: Int) -> UInt32 {
        PQftype(result, Int32(column))
    }

    func isNull(row: Int, column: Int) -> Bool {
        PQgetisnull(result, Int32(row), Int32(column)) != 0
    }

    /// Passes the bytes of a cell to `body`. They are valid during the call.
    func withBytes<Value, Failure: Error>(
        row: Int,
        column: Int,
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        let length = Int(PQgetlength(result, Int32(row), Int32(column)))
        let start = PQgetvalue(result, Int32(row), Int32(column))
        return try withExtendedLifetime(self) { () throws(Failure) -> Value in
            try body(UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : length))
        }
    }
}

extension PostgresRows: RandomAccessCollection {
    package var startIndex: Int { 0 }
    package var endIndex: Int { count }

    package subscript(position: Int) -> PostgresRow {
        precondition(position >= 0 && position < count, "row index out of range")
        return PostgresRow(rows: self, index: position)
    }
}

/// One row of a result.
package struct PostgresRow: Sendable {
    let rows: PostgresRows
    let index: Int

    /// Decodes the columns one after the other, in the order of the `SELECT` list, each where its value has a name.
    ///
    ///     try row.decode { column in
    ///         try Device(userID: column.next(), id: column.next(), locale: column.next())
    ///     }
    ///
    /// - Throws: ``PostgresError/Code/decoding`` if `body` reads more or fewer columns than there are. With the name of
    ///   the column, if it has another type, or is NULL where that is not expected.
    package func decode<Value>(_ body: (inout ColumnCursor) throws -> Value) throws -> Value {
        var columns = ColumnCursor(row: self)
        let value = try body(&columns)
        try columns.checkAllRead()
        return value
    }

    /// Decodes a few columns, in the order of the `SELECT` list, one for each type.
    ///
    ///     let (id, name) = try row.decode(Int64.self, String?.self)
    ///
    /// - Throws: ``PostgresError/Code/decoding`` if there are more or fewer columns than types. With the name of the
    ///   column, if it has another type, or is NULL where that is not expected.
    package func decode<each Value: PostgresDecodable>(
        _ types: repeat (each Value).Type
    ) throws(PostgresError) -> (repeat each Value) {
        var columns = ColumnCursor(row: self)
        let values = try (repeat columns.next((each Value).self))
        try columns.checkAllRead()
        return values
    }

    /// Decodes the only column.
    ///
    /// - Throws: As for several columns.
    package func decode<Value: PostgresDecodable>(_ type: Value.Type) throws(PostgresError) -> Value {
        var columns = ColumnCursor(row: self)
        let value = try columns.next(type)
        try columns.checkAllRead()
        return value
    }
}

/// A cursor over the columns of a row: see ``PostgresRow/decode(_:)``.
package struct ColumnCursor {
    private let row: PostgresRow
    private var position = 0

    fileprivate init(row: PostgresRow) {
        self.row = row
    }

    /// Decodes the next column.
    package mutating func next<Value: PostgresDecodable>(
        _ type: Value.Type = Value.self
    ) throws(PostgresError) -> Value {
        guard position < row.rows.columnCount else {
            throw PostgresError(.decoding, detail: "the statement returned only \(row.rows.columnCount) columns")
        }
        let cell = PostgresCell(rows: row.rows, row: row.index, column: position)
        position += 1
        return try type.decode(cell)
    }

    fileprivate func checkAllRead() throws(PostgresError) {
        guard position < row.rows.columnCount else { return }
        throw PostgresError(
            .decoding,
            detail: "the statement returned \(row.rows.columnCount) columns, but \(position) are read"
        )
    }
}

/// One column of one row.
package struct PostgresCell: Sendable {
    let rows: PostgresRows
    let row: Int
    let column: Int

    /// The object id of the column's type.
    package var type: UInt32 { rows.type(ofColumn: column) }

    package var isNull: Bool { rows.isNull(row: row, column: column) }

    /// Passes the value to `body` in the type's binary format. The bytes are valid during the call.
    package func withBytes<Value>(_ body: (UnsafeRawBufferPointer) -> Value) -> Value {
        rows.withBytes(row: row, column: column, body)
    }

    /// Returns an error that names the column.
    package func error(_ what: String) -> PostgresError {
        PostgresError(.decoding, detail: "column \"\(rows.name(ofColumn: column))\" \(what)")
    }
}
