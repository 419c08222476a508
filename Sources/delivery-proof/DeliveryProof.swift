internal import ArgumentParser
internal import FoundationEssentials

@main
struct DeliveryProof: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delivery-proof",
        abstract: "Proves by enumeration that a push survives a fault at each statement of the sender.",
        discussion: "For scripts/delivery, whose --help explains it.",
        subcommands: [ProveCommand.self, ServeUnderTest.self],
        defaultSubcommand: ProveCommand.self
    )
}

struct ProveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "prove", abstract: "Run the proof.")

    /// The short form ends within a minute: a run that begins by then takes a few seconds.
    private static let shortTime = Duration.seconds(42)

    @Flag(help: "Every tenth point of each fault, as many as a minute allows.")
    var short = false

    @Flag(name: .customLong("real-time"), help: "Only the runs with the intervals of production.")
    var isRealTime = false

    @Flag(help: "Only the runs without a fault: prints the points in their order.")
    var list = false

    @Option(help: "Only this point: the digest of a statement and its occurrence, 3fa1c2#4.")
    var point: Point?

    @Option(
        help: "Only this fault: cut-before, cut-after, cut-inside, late-commit-2, stop-1.2, kill, hang-1.2, refuse-1.2."
    )
    var fault: ProxyFault?

    @Option(help: "Only with so many servers: 1 or 2.")
    var servers: Int?

    @Option(help: "Only this delivery: at_least_once or at_most_once.")
    var delivery: Run.Delivery?

    @Flag(name: .customLong("after-kill"), help: "Only the runs in which a server is killed before the fault.")
    var isAfterKill = false

    @Option(help: "Repeats each run of --point.")
    var times = 1

    @Option(help: "Chooses the points of the short form, and the order of the runs.")
    var seed: UInt64 = 1

    @Option(help: "Databases, and so pushes, at the same time.")
    var workers = 10

    @Option(help: "The folder of the migrations.")
    var migrations = "migrations"

    @Option(help: "Where the servers' logs of violating runs are kept.")
    var logs = ".build/delivery-logs"

    @Flag(help: "Prints a line for each run.")
    var verbose = false

    func validate() throws {
        guard servers.map((1...2).contains) ?? true else { throw ValidationError("--servers is 1 or 2.") }
        guard (1...64).contains(workers) else { throw ValidationError("--workers is 1 to 64.") }
        guard (1...1000).contains(times) else { throw ValidationError("--times is 1 to 1000.") }
        guard !isRealTime || !short else { throw ValidationError("--short and --real-time exclude each other.") }
    }

    // Off the main actor: what a task of the main actor starts would crawl.
    @concurrent
    func run() async throws {
        let report = Report(seed: seed, isVerbose: verbose || point != nil)
        let testbed = try await Testbed.start(migrations: absolute(migrations))
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
        report.finish()
        if report.hasViolations { throw ExitCode.failure }
    }

    private func prove(_ pool: Workers) async throws {
        let start = ContinuousClock.now
        let isFull = !short && !isRealTime && !list
        async let inRealTime =
            isRealTime || isFull && fault == nil
            ? pool.performInRealTime(Plan.realTimeRuns(startingAt: 1_000_001).filter(isWanted)) : []
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
            for fault in fault.map({ [$0] }) ?? ProxyFault.all {
                for servers in servers.map({ [$0] }) ?? [1, 2] {
                    for delivery in delivery.map({ [$0] }) ?? Run.Delivery.allCases {
                        runs.append(
                            Run(
                                number: runs.count + 1,
                                point: point,
                                fault: fault,
                                servers: servers,
                                delivery: delivery,
                                isRealTime: isRealTime,
                                isAfterKill: isAfterKill
                            )
                        )
                    }
                }
            }
        }
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
