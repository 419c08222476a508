import ArgumentParser

/// The options of a command that prints a list.
struct ListOptions: ParsableArguments {
    @Option(help: "The maximum number of items.")
    var limit = 100

    @Flag(help: "Print JSON, one item per line.")
    var json = false

    func validate() throws {
        guard limit > 0 else { throw ValidationError("--limit must be at least 1.") }
    }
}
