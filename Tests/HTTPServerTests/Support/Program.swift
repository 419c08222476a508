import Dispatch
import EventLoop
import Glibc

/// A program of the system that a test runs: `curl`, `openssl`.
enum Program {
    struct Result: Sendable {
        let status: Int32
        /// Standard output, and standard error after it.
        let output: [UInt8]

        var text: String { String(decoding: output, as: UTF8.self) }
    }

    /// Runs a program to its end.
    ///
    /// - Parameters:
    ///   - arguments: The program, looked up in `PATH`, and its arguments.
    ///   - input: Its standard input, at most what a socket takes at once (64 KiB).
    static func run(_ arguments: [String], input: String = "") async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue(label: "program").async {
                continuation.resume(with: Swift.Result { try runBlocking(arguments, input: input) })
            }
        }
    }

    private static func runBlocking(_ arguments: [String], input: String) throws -> Result {
        let (inputEnd, inputStart) = try socketPair()
        let (outputEnd, outputStart) = try socketPair()
        let written = Array(input.utf8).withUnsafeBytes { write(inputStart, $0.baseAddress, $0.count) }
        close(inputStart)
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_adddup2(&actions, inputEnd, 0)
        posix_spawn_file_actions_adddup2(&actions, outputStart, 1)
        posix_spawn_file_actions_adddup2(&actions, outputStart, 2)
        var pid = pid_t()
        var argv = arguments.map { strdup($0) } + [nil]
        let spawned = posix_spawnp(&pid, arguments[0], &actions, nil, &argv, environ)
        posix_spawn_file_actions_destroy(&actions)
        for argument in argv { free(argument) }
        close(inputEnd)
        close(outputStart)
        let descriptor = FileDescriptor(owning: outputEnd)
        guard spawned == 0 else { throw SystemError(call: "posix_spawnp(\(arguments[0]))", code: spawned) }
        guard written == input.utf8.count else { throw SystemError(call: "write", code: EMSGSIZE) }
        var output: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 * 1024)
        while true {
            let count = read(descriptor.rawValue, &buffer, buffer.count)
            guard count > 0 else { break }
            output += buffer[..<count]
        }
        var status: Int32 = 0
        waitpid(pid, &status, 0)
        return Result(status: status, output: output)
    }

    /// Not a pipe: Swift's `Glibc` has no `pipe2`, and without `CLOEXEC` the end of one program's input would be held by another.
    private static func socketPair() throws -> (end: Int32, start: Int32) {
        var ends: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
            throw SystemError(call: "socketpair")
        }
        return (ends[0], ends[1])
    }
}

/// A directory that is gone after the test.
struct TemporaryDirectory: ~Copyable {
    let path: String
    private var files: [String] = []

    init() throws {
        var template = Array("/tmp/http-server-tests-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw SystemError(call: "mkdtemp") }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// The path of a file in it that does not exist yet.
    mutating func file(_ name: String) -> String {
        files.append("\(path)/\(name)")
        return "\(path)/\(name)"
    }

    /// Writes a file and returns its path.
    mutating func write(_ bytes: [UInt8], to name: String) throws -> String {
        let file = file(name)
        let number = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard number >= 0 else { throw SystemError(call: "open") }
        let descriptor = FileDescriptor(owning: number)
        let count = bytes.withUnsafeBytes { Glibc.write(descriptor.rawValue, $0.baseAddress, $0.count) }
        guard count == bytes.count else { throw SystemError(call: "write") }
        return file
    }

    deinit {
        for file in files { unlink(file) }
        rmdir(path)
    }
}
