internal import CLibpq

/// What a statement returned: its rows, and how many it wrote.
///
/// Owns libpq's result and clears it once, when nobody holds it any more. A result is never changed after it has come,
/// so it may be read from anywhere (libpq manual, "Behavior in Threaded Programs").
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

    /// The rows that an `INSERT`, `UPDATE` or `DELETE` wrote, or that a `SELECT` returned; 0 for other statements.
    package var affectedRows: Int {
        guard let digits = PQcmdTuples(result) else { return 0 }
        return Int(String(cString: digits)) ?? 0
    }

    /// What the server says it has done: `INSERT 0 3`, `COMMIT`.
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

    /// The bytes of a cell, valid during the call.
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
        precondition(position >= 0 && position < count, "no such row")
        return PostgresRow(rows: self, index: position)
    }
}

/// One row of a result.
package struct PostgresRow: Sendable {
    let rows: PostgresRows
    let index: Int

    /// The columns, in the order of the `SELECT` list, one for each type.
    ///
    ///     let (id, name) = try row.decode(Int64.self, String?.self)
    ///
    /// - Throws: ``PostgresError/Code/decoding``, naming the column, when there are more or fewer columns than types,
    ///   when a column has another type, and for a NULL where none is expected.
    package func decode<each Value: PostgresDecodable>(
        _ types: repeat (each Value).Type
    ) throws(PostgresError) -> (repeat each Value) {
        var columns = ColumnCursor(row: self)
        let values = try (repeat columns.next((each Value).self))
        try columns.end()
        return values
    }

    /// The only column.
    ///
    /// - Throws: as for several.
    package func decode<Value: PostgresDecodable>(_ type: Value.Type) throws(PostgresError) -> Value {
        var columns = ColumnCursor(row: self)
        let value = try columns.next(type)
        try columns.end()
        return value
    }
}

/// Goes through the columns of a row.
private struct ColumnCursor {
    let row: PostgresRow
    var position = 0

    mutating func next<Value: PostgresDecodable>(_ type: Value.Type) throws(PostgresError) -> Value {
        guard position < row.rows.columnCount else {
            throw PostgresError(.decoding, detail: "the statement returned \(row.rows.columnCount) columns only")
        }
        let cell = PostgresCell(rows: row.rows, row: row.index, column: position)
        position += 1
        return try type.decode(cell)
    }

    func end() throws(PostgresError) {
        guard position < row.rows.columnCount else { return }
        throw PostgresError(
            .decoding,
            detail: "the statement returned \(row.rows.columnCount) columns, \(position) are read"
        )
    }
}

/// One column of one row.
package struct PostgresCell: Sendable {
    let rows: PostgresRows
    let row: Int
    let column: Int

    /// The number by which PostgreSQL names the column's type.
    package var type: UInt32 { rows.type(ofColumn: column) }

    package var isNull: Bool { rows.isNull(row: row, column: column) }

    /// The value in the type's binary format, valid during the call.
    package func withBytes<Value>(_ body: (UnsafeRawBufferPointer) -> Value) -> Value {
        rows.withBytes(row: row, column: column, body)
    }

    /// An error that names the column.
    package func error(_ what: String) -> PostgresError {
        PostgresError(.decoding, detail: "column \"\(rows.name(ofColumn: column))\" \(what)")
    }
}
