import ArgumentParser
import EventLoop
import FoundationEssentials
import Glibc
import HTTPClient
import HTTPTypes
import Net

/// Measures new connections of the HTTP client.
struct ConnectCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "connect",
        abstract: "Send requests, each on a new connection, for scripts/bench client.",
        discussion:
            "Prints the connections a second; with --count, also by how much memory and open files have grown since the first tenth."
    )

    @Argument(help: "The URL to request.")
    var url: String

    @Option(help: "A file of certificates in PEM form to trust instead of the system's.")
    var caFile: String?

    @Option(help: "The time to run, in seconds, without --count.")
    var seconds = 4

    @Option(help: "The number of connections.")
    var count: Int?

    @Option(help: "The number of concurrent requests.")
    var concurrency = 4

    // Not on the main actor: tasks started from it are slow.
    @concurrent
    func run() async throws {
        let loops = try EventLoopGroup()
        let trust = try TrustStore.reading(caFile)
        let clients = loops.loops.map { HTTPClient(settings: HTTPClientSettings(trust: trust), loop: $0) }
        let start = MonotonicTime.now
        func connect(_ share: Int?) async throws -> Int {
            let end = share == nil ? start + .seconds(seconds) : nil
            return try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<concurrency {
                    let index = number % clients.count
                    group.addTask(executorPreference: loops.loops[index]) {
                        try await send(clients[index], share.map { $0 / concurrency }, until: end)
                    }
                }
                return try await group.reduce(0, +)
            }
        }
        if let count {
            _ = try await connect(count / 10)
            let before = Usage()
            _ = try await connect(count - count / 10)
            let after = Usage()
            print(after.residentBytes - before.residentBytes, after.openFiles - before.openFiles)
        } else {
            print(Int(Double(try await connect(nil)) / ((MonotonicTime.now - start) / .seconds(1))))
        }
        for client in clients { await client.shutdown() }
        loops.shutdown()
    }

    /// Sends one request after another until a number or a time is reached, and returns their number.
    private func send(_ client: HTTPClient, _ limit: Int?, until end: MonotonicTime?) async throws -> Int {
        // The server closes the connection after its response.
        let request = HTTPClientRequest(url: url, headerFields: [.connection: "close"])
        var count = 0
        while limit.map({ count < $0 }) ?? true, end.map({ MonotonicTime.now < $0 }) ?? true {
            let response = try await client.send(request)
            guard response.status == 200 else { throw ValidationError("The response has status \(response.status).") }
            count += 1
        }
        return count
    }
}

/// What this process holds.
private struct Usage {
    /// The resident memory.
    let residentBytes: Int
    let openFiles: Int

    init() {
        let status = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? ""
        residentBytes = (status.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0) * Int(getpagesize())
        openFiles = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
    }
}
