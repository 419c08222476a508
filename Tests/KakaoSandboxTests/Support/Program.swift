import Glibc

/// The program `kakao-sandbox`, as it was built beside these tests.
final class Program {
    private let process: pid_t
    private let output: Int32
    private var hasEnded = false

    init(arguments: [String]) throws {
        var buffer = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/exe", &buffer, buffer.count - 1)
        try Self.check("readlink", count > 0 ? 0 : errno)
        let own = String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let folder = own[..<(own.lastIndex(of: "/") ?? own.endIndex)]

        // A pair of sockets and not a pipe, since it is born with close-on-exec: no other child may hold its end open.
        var pair: [Int32] = [0, 0]
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        try Self.check("socketpair", socketpair(AF_UNIX, type, 0, &pair) == 0 ? 0 : errno)
        defer { close(pair[1]) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, pair[1], STDOUT_FILENO)
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
        let path = "\(folder)/kakao-sandbox"
        let words = ([path] + arguments).map { strdup($0) }
        defer { for word in words { free(word) } }
        var process: pid_t = 0
        let error = posix_spawn(&process, path, &actions, nil, words + [nil], environ)
        if error != 0 { close(pair[0]) }
        try Self.check("posix_spawn", error)
        self.process = process
        output = pair[0]
    }

    deinit {
        close(output)
    }

    private struct Failure: Error {
        let call: String
        let code: Int32
    }

    private static func check(_ call: String, _ code: Int32) throws {
        guard code == 0 else { throw Failure(call: call, code: code) }
    }

    /// The next line that it prints, without its end; empty at the end of its output.
    func readLine() -> String {
        var line: [UInt8] = []
        var octet: UInt8 = 0
        while read(output, &octet, 1) == 1, octet != UInt8(ascii: "\n") { line.append(octet) }
        return String(decoding: line, as: UTF8.self)
    }

    /// Sends a signal (0 for none), waits for the end, and returns the exit status; `nil` if a signal ended it.
    func end(with signal: Int32) -> Int32? {
        Glibc.kill(process, signal)
        var status: Int32 = 0
        waitpid(process, &status, 0)
        hasEnded = true
        return status & 0x7F == 0 ? status >> 8 & 0xFF : nil
    }

    /// Ends it for good, if it has not ended.
    func kill() {
        if !hasEnded { _ = end(with: SIGKILL) }
    }
}
