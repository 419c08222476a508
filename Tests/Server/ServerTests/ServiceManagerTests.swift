import Dispatch
import EventLoop
import FoundationEssentials
import Glibc
import Locking
import ServiceTesting
import TestSupport
import Testing

@testable import Server

/// Tests of what a service manager, such as systemd, passes on and is told.
@Suite(.timeLimit(.minutes(5))) struct ServiceManagerTests {
    /// The socket of a service manager, which reads what it is told.
    private final class Messages: Sendable {
        let path: String
        private let descriptor: Int32

        init(_ path: String) throws {
            self.path = path
            descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            var name = sockaddr_un()
            name.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: path.utf8) }
            if path.hasPrefix("@") { withUnsafeMutableBytes(of: &name.sun_path) { $0[0] = 0 } }
            let length = socklen_t(MemoryLayout<sa_family_t>.size + path.utf8.count)
            let result = withUnsafePointer(to: &name) { name in
                name.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) }
            }
            guard result == 0 else { throw SystemError(call: "bind") }
        }

        deinit {
            close(descriptor)
        }

        /// The message that has waited longest; `nil` if there is none.
        func next() -> String? {
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            return count >= 0 ? String(decoding: buffer[..<count], as: UTF8.self) : nil
        }

        /// Waits for the next message that says more than that the server is alive.
        func message() async throws -> String {
            var message: String?
            try await eventually("a message") {
                repeat { message = next() } while message == "WATCHDOG=1"
                return message != nil
            }
            return message ?? ""
        }
    }

    @Test("A server says when it is ready, reads its settings again, lives and stops")
    func messages() async throws {
        let messages = try Messages("\(TemporaryFolder.make())/notify")
        try await withDatabaseAndKakao { database, kakao in
            var environment = RunningProgram.environment(database, kakao)
            environment["NOTIFY_SOCKET"] = messages.path
            environment["WATCHDOG_USEC"] = "100000"
            try await RunningProgram.with(environment: environment) { process, _ in
                #expect(try await messages.message() == "READY=1\nSTATUS=Serving")
                try await eventually("a message that it is alive") { messages.next() == "WATCHDOG=1" }
                process.send(SIGHUP)
                let reloading = try await messages.message()
                #expect(reloading.contains(/^RELOADING=1\nMONOTONIC_USEC=[0-9]+\n/))
                #expect(try await messages.message() == "READY=1\nSTATUS=Serving")
                process.send(SIGTERM)
                let stopping = try await messages.message()
                #expect(stopping == "STOPPING=1\nSTATUS=Shutting down\nEXTEND_TIMEOUT_USEC=15000000")
                #expect(await process.ended() == .exited(0))
            }
        }
    }

    @Test("A server that waits for its database is started, and says what it waits for")
    func waiting() async throws {
        let messages = try Messages("\(TemporaryFolder.make())/notify")
        try await withDatabaseAndKakao { database, kakao in
            var environment = RunningProgram.environment(database, kakao)
            environment["NOTIFY_SOCKET"] = messages.path
            environment["DATABASE_URL"] = "postgres://nobody@127.0.0.1:1/none"
            let process = try await RunningProgram.start(environment: environment)
            try await process.whileRunning {
                let message = try await messages.message()
                #expect(message.hasPrefix("READY=1\nSTATUS=Waiting for the database: "))
                #expect(message.contains("Connection refused"))
            }
        }
    }

    @Test(
        "A loop that is stuck keeps the server from saying that it is alive, and a path that begins with @ is no file"
    )
    func stuck() async throws {
        let messages = try Messages("@kakao-push-server-test-\(UUID())")
        let loops = try EventLoopGroup(count: 2)
        defer { loops.shutdown() }
        let manager = ServiceManager(
            environment: ["NOTIFY_SOCKET": messages.path, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": "\(getpid())"]
        )
        let feeding = Task { await manager.feedWatchdog(loops.loops) }
        try await eventually("a message that it is alive") { messages.next() == "WATCHDOG=1" }
        let (release, isBlocked) = (DispatchSemaphore(value: 0), Locked(false))
        loops.loops[1].execute {
            isBlocked.withLock { $0 = true }
            release.wait()
        }
        try await eventually("the loop is stuck") { isBlocked.withLock { $0 } }
        while messages.next() != nil {}
        // Earlier timers of the loop fire first, also those of further messages.
        try await loops.loops[0].sleep(for: .milliseconds(100))
        // One may have been on its way.
        _ = messages.next()
        #expect(messages.next() == nil)
        release.signal()
        try await eventually("a message that it is alive") { messages.next() == "WATCHDOG=1" }
        feeding.cancel()
        await feeding.value
    }

    @Test("Only what is meant for this process counts")
    func environment() {
        let ours = ["LISTEN_FDS": "2", "LISTEN_PID": "\(getpid())"]
        #expect(ServiceManager(environment: ours).sockets == [3, 4])
        for other in [["LISTEN_PID": "1"], ["LISTEN_FDS": "-1"], ["LISTEN_FDS": "x"]] {
            #expect(ServiceManager(environment: ours.merging(other) { $1 }).sockets.isEmpty)
        }
        #expect(ServiceManager(environment: [:]).sockets.isEmpty)
    }
}
