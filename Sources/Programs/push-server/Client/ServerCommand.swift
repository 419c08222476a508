import ArgumentParser
import JSON

/// A command that calls the HTTP API of a running server.
protocol ServerCommand: AsyncParsableCommand {
    var options: ServerOptions { get }

    func run(on server: ServerClient) async throws
}

extension ServerCommand {
    @concurrent
    func run() async throws {
        try await options.withServer { server in try await run(on: server) }
    }
}

/// The option of a command that prints an object of the server.
struct ObjectOptions: ParsableArguments {
    @Flag(help: "Print the server's JSON in one line.")
    var json = false

    /// Prints the server's JSON or, without `--json`, its rows as a table.
    ///
    /// - Parameter rows: Returns the rows of the object, in which times are as they are shown.
    func write(_ object: JSONValue, of server: ServerClient, _ rows: (JSONValue) throws -> [[String]]) async throws {
        if json { Terminal.writeLine(object.description) } else { try await server.writeTable(object, rows) }
    }
}

/// The options of a command that prints a list.
struct ListOptions: ParsableArguments {
    @Option(help: "The maximum number of items.")
    var limit = 100

    @Flag(help: "Print JSON, one item per line.")
    var json = false

    func validate() throws {
        guard limit > 0 else { throw ValidationError("--limit must be at least 1.") }
    }

    /// Gets the items of a list from the server and prints them: their JSON as they arrive or, without `--json`, a table of
    /// all.
    ///
    /// - Parameters:
    ///   - head: The first row of the table.
    ///   - largestPage: The maximum number of items in a response.
    ///   - row: Returns the row of an item, in which times are as they are shown.
    ///   - note: Returns a line below the row; `nil` for none.
    func write(
        _ path: String,
        _ filters: [ServerClient.Filter],
        of server: ServerClient,
        head: [String],
        largestPage: Int = ServerClient.largestPage,
        row: (JSONValue) throws -> [String],
        note: (JSONValue) throws -> String? = { _ in nil }
    ) async throws {
        var rows = [head]
        let times = json ? .utc : try await server.times()
        try await server.pages(path, filters, limit: limit, largestPage: largestPage) { items in
            if json {
                for item in items { Terminal.writeLine(item.description) }
            } else {
                for item in items.map(times.shown) {
                    rows.append(try row(item))
                    if let note = try note(item) { rows.append(["  \(note)"]) }
                }
            }
        }
        if !json { Terminal.writeTable(rows) }
    }
}
