internal import Dispatch
internal import EventLoop
internal import FoundationEssentials
internal import Glibc

/// What the kernel says of this process (`proc(5)`).
struct ProcessStatistics: Sendable {
    /// Memory that is in use and in no swap.
    let residentBytes: Int
    /// In user and in system mode.
    let processorSeconds: Double
    let openDescriptors: Int
    /// Seconds since 1970.
    let startTime: Double

    /// Reads it, off every loop: a process with many connections has many descriptors to count. `nil` where `/proc` is missing.
    static func read() async -> ProcessStatistics? {
        await withCheckedContinuation { continuation in
            EventLoop.blocking.async { continuation.resume(returning: ProcessStatistics()) }
        }
    }

    private init?() {
        guard let stat = Self.text("/proc/self/stat"), let system = Self.text("/proc/stat"),
            let descriptors = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd"),
            // The name of the program comes second, in parentheses, and may hold anything.
            let nameEnd = stat.lastIndex(of: ")"),
            let bootLine = system.split(separator: "\n").first(where: { $0.hasPrefix("btime ") }),
            let bootTime = Double(bootLine.dropFirst("btime ".count))
        else { return nil }
        // Numbered as the manual does, whose third field is the first after the name.
        let fields = stat[nameEnd...].split(separator: " ").dropFirst().map { Int($0) ?? 0 }
        func field(_ number: Int) -> Int { fields.indices.contains(number - 3) ? fields[number - 3] : 0 }
        let ticksPerSecond = Double(sysconf(Int32(_SC_CLK_TCK)))
        processorSeconds = Double(field(14) + field(15)) / ticksPerSecond
        startTime = bootTime + Double(field(22)) / ticksPerSecond
        residentBytes = field(24) * sysconf(Int32(_SC_PAGESIZE))
        // Without the one by which they were listed.
        openDescriptors = descriptors.count - 1
    }

    private static func text(_ path: String) -> String? {
        FileContents.read(path).map { String(decoding: $0, as: UTF8.self) }
    }
}
