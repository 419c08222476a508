import Dispatch
import EventLoop
import FoundationEssentials
import Glibc
import Settings

/// The kernel's statistics of this process (`proc(5)`).
struct ProcessStatistics: Sendable {
    /// The memory in use, without swap.
    let residentBytes: Int
    /// The processor time in user and system mode, in seconds.
    let processorSeconds: Double
    let openDescriptors: Int
    /// The start of the process, in seconds since 1970.
    let startTime: Double

    /// Reads the statistics outside of the event loops, since a process with many connections has many descriptors to
    /// count. Returns `nil` where `/proc` is missing.
    static func read() async -> ProcessStatistics? {
        await withCheckedContinuation { continuation in
            EventLoop.blocking.async { continuation.resume(returning: ProcessStatistics()) }
        }
    }

    private init?() {
        guard let stat = Self.text("/proc/self/stat"), let system = Self.text("/proc/stat"),
            let descriptors = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd"),
            // The second field is the program's name in parentheses, which may contain any character.
            let nameEnd = stat.lastIndex(of: ")"),
            let bootLine = system.split(separator: "\n").first(where: { $0.hasPrefix("btime ") }),
            let bootTime = Double(bootLine.dropFirst("btime ".count))
        else { return nil }
        // Fields are numbered as in the manual: the first one after the name is number 3.
        let fields = stat[nameEnd...].split(separator: " ").dropFirst().map { Int($0) ?? 0 }
        func field(_ number: Int) -> Int { fields.indices.contains(number - 3) ? fields[number - 3] : 0 }
        let ticksPerSecond = Double(sysconf(Int32(_SC_CLK_TCK)))
        processorSeconds = Double(field(14) + field(15)) / ticksPerSecond
        startTime = bootTime + Double(field(22)) / ticksPerSecond
        residentBytes = field(24) * sysconf(Int32(_SC_PAGESIZE))
        // The descriptor that lists the folder does not count.
        openDescriptors = descriptors.count - 1
    }

    private static func text(_ path: String) -> String? {
        FileContents.read(path).map { String(decoding: $0, as: UTF8.self) }
    }
}
