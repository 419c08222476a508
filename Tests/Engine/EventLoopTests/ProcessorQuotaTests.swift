import FoundationEssentials
import TestSupport
import Testing

@testable import EventLoop

@Suite struct ProcessorQuotaTests {
    /// Returns the quota of a machine with these files.
    private func quota(_ files: [String: String]) throws -> Double? {
        let root = try TemporaryFolder.make()
        for (path, text) in files {
            let file = URL(filePath: root + path)
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(),
                withIntermediateDirectories: true
            )
            try Data(text.utf8).write(to: file)
        }
        return ProcessorQuota(root: root).processors
    }

    private static let mount2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
    private static let mount1 =
        "33 32 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:16 - cgroup cgroup rw,cpu,cpuacct\n"

    @Test("Without a quota, or without cgroups, there is none")
    func none() throws {
        #expect(try quota([:]) == nil)
        #expect(
            try quota([
                "/proc/self/cgroup": "0::/\n", "/proc/self/mountinfo": Self.mount2,
                "/sys/fs/cgroup/cpu.max": "max 100000\n",
            ]) == nil
        )
        #expect(
            try quota([
                "/proc/self/cgroup": "4:cpu,cpuacct:/\n", "/proc/self/mountinfo": Self.mount1,
                "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            ]) == nil
        )
    }

    @Test("The smallest quota on the way up counts, in version 2")
    func version2() throws {
        let files = [
            "/proc/self/cgroup": "0::/a.slice/b.service\n", "/proc/self/mountinfo": Self.mount2,
            "/sys/fs/cgroup/a.slice/cpu.max": "150000 100000\n",
            "/sys/fs/cgroup/a.slice/b.service/cpu.max": "400000 100000\n",
            // Of another service.
            "/sys/fs/cgroup/a.slice/c.service/cpu.max": "1000 100000\n",
        ]
        #expect(try quota(files) == 1.5)
        #expect(try quota(files.merging(["/sys/fs/cgroup/a.slice/cpu.max": "max 100000\n"]) { $1 }) == 4)
    }

    @Test("The smallest quota on the way up counts, in version 1 and beside version 2")
    func version1() throws {
        let files = [
            "/proc/self/cgroup": "12:memory:/x\n4:cpu,cpuacct:/docker/1\n0::/docker/1\n",
            "/proc/self/mountinfo": Self.mount1
                + "40 32 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            "/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us": "50000\n",
            "/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us": "-1\n",
            "/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us": "100000\n",
        ]
        #expect(try quota(files) == 0.5)
    }

    @Test("In a container without a cgroup namespace, the mounted cgroup is the container's")
    func container() throws {
        let mount = "33 32 0:29 /docker/1 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n"
        let files = [
            "/proc/self/mountinfo": mount, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us": "100000\n",
            "/sys/fs/cgroup/cpu/inner/cpu.cfs_period_us": "100000\n",
        ]
        #expect(try quota(files.merging(["/proc/self/cgroup": "4:cpu,cpuacct:/docker/1\n"]) { $1 }) == 2)
        #expect(try quota(files.merging(["/proc/self/cgroup": "4:cpu,cpuacct:/docker/1/inner\n"]) { $1 }) == 1)
        // Moved out of what is mounted.
        #expect(try quota(files.merging(["/proc/self/cgroup": "4:cpu,cpuacct:/elsewhere\n"]) { $1 }) == 2)
    }

    @Test(
        "The number of loops is that of the processors, or of the quota if that is less",
        arguments: [(8, nil, 8), (8, 1.5, 2), (8, 0.2, 1), (2, 16, 2)] as [(Int, Double?, Int)]
    )
    func loops(online: Int, quota: Double?, count: Int) {
        #expect(EventLoopGroup.coreCount(online: online, quota: quota) == count)
    }
}
