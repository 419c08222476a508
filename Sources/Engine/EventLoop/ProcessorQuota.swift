import Glibc

/// The processors that the CPU quotas of cgroups leave to this process, as container limits and systemd's `CPUQuota` set
/// them.
///
/// A cgroup is limited by its own quota and by those of all cgroups above it, up to the root of what the process sees
/// (cgroups(7); Linux documentation, "CFS Bandwidth Control" and "Control Group v2").
struct ProcessorQuota {
    /// The directory below which `/proc` and `/sys` are read: another one for tests.
    var root = ""

    /// The smallest quota, as a number of processors; `nil` without one.
    var processors: Double? {
        guard let memberships = text("/proc/self/cgroup"), let mounts = text("/proc/self/mountinfo") else { return nil }
        var smallest: Double?
        for line in memberships.split(separator: "\n") {
            // The number of the hierarchy, its controllers, and the path of the process's cgroup.
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3 else { continue }
            let isVersion2 = fields[0] == "0" && fields[1].isEmpty
            guard isVersion2 || fields[1].split(separator: ",").contains("cpu") else { continue }
            guard let mount = mount(in: mounts, isVersion2: isVersion2) else { continue }
            for directory in directories(of: fields[2], in: mount) {
                guard let quota = isVersion2 ? quota2(directory) : quota1(directory) else { continue }
                smallest = min(smallest ?? quota, quota)
            }
        }
        return smallest
    }

    private struct Mount {
        /// The cgroup that is mounted: another one than `/` in a container without a cgroup namespace.
        let root: Substring
        let point: Substring
    }

    /// Finds the mount of a hierarchy (proc_pid_mountinfo(5)).
    private func mount(in mounts: String, isVersion2: Bool) -> Mount? {
        for line in mounts.split(separator: "\n") {
            guard let separator = line.firstRange(of: " - ") else { continue }
            let fields = line[..<separator.lowerBound].split(separator: " ")
            let type = line[separator.upperBound...].split(separator: " ")
            guard fields.count >= 5, type.count >= 3 else { continue }
            let isMatch =
                isVersion2 ? type[0] == "cgroup2" : type[0] == "cgroup" && type[2].split(separator: ",").contains("cpu")
            if isMatch { return Mount(root: fields[3], point: fields[4]) }
        }
        return nil
    }

    /// Returns the directory of a cgroup and those above it, up to the mount.
    private func directories(of path: Substring, in mount: Mount) -> [String] {
        var names = path.split(separator: "/")
        let mounted = mount.root.split(separator: "/")
        // A cgroup outside of what is mounted is not visible: only the mount itself is.
        names = names.starts(with: mounted) && !names.contains("..") ? Array(names.dropFirst(mounted.count)) : []
        return (0...names.count).map { count in
            ([String(mount.point)] + names.prefix(count).map(String.init)).joined(separator: "/")
        }
    }

    /// Reads `cpu.max` of version 2: the quota, or `max`, and the period in microseconds.
    private func quota2(_ directory: String) -> Double? {
        let fields = text("\(directory)/cpu.max")?.split(whereSeparator: \.isWhitespace) ?? []
        guard fields.count == 2 else { return nil }
        return Self.processors(quota: fields[0], period: fields[1])
    }

    /// Reads the files of version 1: a quota of -1 is none.
    private func quota1(_ directory: String) -> Double? {
        guard let quota = text("\(directory)/cpu.cfs_quota_us"), let period = text("\(directory)/cpu.cfs_period_us")
        else { return nil }
        return Self.processors(quota: quota[...], period: period[...])
    }

    private static func processors(quota: Substring, period: Substring) -> Double? {
        func number(_ text: Substring) -> Double? { Double(text.filter { !$0.isWhitespace }) }
        guard let quota = number(quota), let period = number(period), quota > 0, period > 0 else { return nil }
        return quota / period
    }

    private func text(_ path: String) -> String? {
        guard let file = fopen(root + path, "re") else { return nil }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = fread(&buffer, 1, buffer.count, file)
            guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
            bytes += buffer[..<count]
        }
    }
}
