import ArgumentParser
import FoundationEssentials
import Runtime

@main
struct DeliveryProof: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delivery-proof",
        abstract:
            "Prove by enumeration that a push survives a fault at each statement of the sender, and at each request to Kakao.",
        discussion: "Run it with scripts/prove delivery; its --help explains the proof.",
        subcommands: [ProveCommand.self, ServeUnderTest.self],
        defaultSubcommand: ProveCommand.self
    )
}

struct ProveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "prove", abstract: "Run the proof.")

    /// The time after which the short form begins no further runs. A run takes a few seconds, so that it ends within
    /// half a minute.
    private static let shortTime = Duration.seconds(20)

    @Flag(help: "Run every tenth point of each fault, as many as fit into half a minute.")
    var short = false

    @Flag(name: .customLong("real-time"), help: "Run only the runs with the intervals of production.")
    var isRealTime = false

    @Flag(help: "Run only the baselines, without a fault under test, and print their points in order.")
    var list = false

    @Option(
        help:
            "Run only this point: the digest of a statement and its occurrence, such as 3fa1c2#4, or a send, such as kakao#4."
    )
    var point: Point?

    @Option(
        help:
            "Run only this fault: cut-before, cut-after, cut-inside, late-commit-N, stop-N, kill, hang-N, refuse-N (N leases), request-before, request-inside, request-after, response-inside."
    )
    var fault: ProxyFault?

    @Option(help: "Run only with this number of servers: 1 or 2.")
    var servers: Int?

    @Option(help: "Run only this delivery: at_least_once or at_most_once.")
    var delivery: Run.Delivery?

    @Flag(name: .customLong("after-kill"), help: "Run only the runs in which a server is killed before the fault.")
    var isAfterKill = false

    @Option(help: "The number of times to repeat each run of --point.")
    var times = 1

    @Option(help: "The seed for the points of the short form and the order of the runs.")
    var seed: UInt64 = 1

    @Option(help: "The number of parallel workers, each with a database of its own.")
    var workers = 10

    @Option(help: "The directory of the migrations.")
    var migrations = "migrations"

    @Option(help: "The directory for the servers' logs of runs with violations.")
    var logs = ".build/delivery-logs"

    @Flag(help: "Print a line for each run.")
    var verbose = false

    func validate() throws {
        guard servers.map((1...2).contains) ?? true else { throw ValidationError("--servers must be 1 or 2.") }
        guard (1...64).contains(workers) else { throw ValidationError("--workers must be from 1 to 64.") }
        guard (1...1000).contains(times) else { throw ValidationError("--times must be from 1 to 1000.") }
        guard !isRealTime || !short else { throw ValidationError("--short and --real-time cannot be combined.") }
    }

    // Off the main actor: tasks that are started from the main actor run slowly.
    @concurrent
    func run() async throws {
        let report = Report(seed: seed, isVerbose: verbose || point != nil)
        let testbed = try await Testbed(migrations: absolute(migrations))
        do {
            let workers = Workers(testbed: testbed, logsFolder: absolute(logs), report: report)
            if let point {
                try await repeatRuns(at: point, workers)
            } else {
                try await prove(workers)
            }
        } catch {
            await testbed.stop()
            throw error
        }
        await testbed.stop()
        report.writeSummary()
        if report.hasViolations { throw ExitCode.failure }
    }

    private func prove(_ pool: Workers) async throws {
        let start = ContinuousClock.now
        let isFull = !short && !isRealTime && !list
        async let inRealTime =
            isRealTime || isFull && fault == nil
            ? pool.performInRealTime(Plan.realTimeRuns().filter(isWanted)) : []
        if !isRealTime {
            let baselines = try await pool.perform(Plan.baselines().filter(isWantedWithoutFault), workers: workers)
            if list { return pool.report.writePoints(of: baselines) }
            let plan = Plan(isShort: short, seed: seed)
            let runs = plan.runs(after: baselines).filter(isWanted)
            _ = try await pool.perform(runs, workers: workers, until: short ? start + Self.shortTime : nil)
        }
        _ = try await inRealTime
    }

    private func isWanted(_ run: Run) -> Bool {
        (fault == nil || run.fault == fault) && (!isAfterKill || run.isAfterKill) && isWantedWithoutFault(run)
    }

    private func isWantedWithoutFault(_ run: Run) -> Bool {
        (servers == nil || run.servers == servers)
            && (delivery == nil || run.delivery == delivery)
    }

    private func repeatRuns(at point: Point, _ pool: Workers) async throws {
        var runs: [Run] = []
        for _ in 0..<times {
            for fault in fault.map({ [$0] })
                ?? (point.digest == Point.send(1).digest ? ProxyFault.ofKakao : ProxyFault.all)
            {
                for servers in servers.map({ [$0] }) ?? [1, 2] {
                    for delivery in delivery.map({ [$0] }) ?? Run.Delivery.allCases {
                        var run = Run(point: point, fault: fault, servers: servers, delivery: delivery)
                        run.isRealTime = isRealTime
                        run.isAfterKill = isAfterKill
                        runs.append(run)
                    }
                }
            }
        }
        runs = runs.numbered()
        _ = isRealTime ? try await pool.performInRealTime(runs) : try await pool.perform(runs, workers: workers)
    }

    private func absolute(_ path: String) -> String {
        path.hasPrefix("/") ? path : FileManager.default.currentDirectoryPath + "/" + path
    }
}

extension Point: ExpressibleByArgument {
    init?(argument: String) {
        self.init(argument)
    }
}

extension ProxyFault: ExpressibleByArgument {
    init?(argument: String) {
        self.init(argument)
    }
}

extension Run.Delivery: ExpressibleByArgument {}
