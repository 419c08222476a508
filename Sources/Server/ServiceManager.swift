import EventLoop
import Glibc
import Net
import Settings

/// The service manager that started this process, such as systemd: it passes on sockets that listen, and is told how the server is
/// doing (`sd_listen_fds(3)`, `sd_notify(3)`).
package struct ServiceManager: Sendable {
    /// The first socket that a service manager passes on.
    private static let firstSocket: Int32 = 3
    /// The maximum number of sockets, far above what a server has ports for.
    private static let maximumSockets: Int32 = 64

    /// The sockets that it passed on. They remain when this process ends.
    let sockets: [Int32]
    /// The path of the socket for messages. One that begins with `@` is not in the file system.
    private let address: String?
    /// The time after which a server that has sent no message is restarted.
    private let watchdog: Duration?

    /// Reads what the service manager has set in the environment.
    package init(environment: [String: String]) {
        func isOfThisProcess(_ name: String) -> Bool { environment[name] == String(getpid()) }
        let count = isOfThisProcess("LISTEN_PID") ? environment["LISTEN_FDS"].flatMap { Int32($0) } ?? 0 : 0
        sockets = (0..<min(max(0, count), Self.maximumSockets)).map { Self.firstSocket + $0 }
        address = environment["NOTIFY_SOCKET"]
        let microseconds = environment["WATCHDOG_USEC"].flatMap { Int64($0) } ?? 0
        let isWatched = environment["WATCHDOG_PID"] == nil || isOfThisProcess("WATCHDOG_PID")
        watchdog = isWatched && microseconds > 0 ? .microseconds(microseconds) : nil
    }

    // MARK: Sockets

    /// Returns the addresses at which the sockets of a port listen; `nil` if there are none.
    func addresses(at port: Int) -> String? {
        let addresses = sockets(at: port).compactMap { try? FileDescriptor.localAddress($0).description }
        return addresses.isEmpty ? nil : addresses.joined(separator: ", ")
    }

    /// Returns the sockets that listen at a port.
    func sockets(at port: Int) -> [Int32] {
        sockets.filter { FileDescriptor.listeningPort($0) == port }
    }

    /// Checks that each socket listens at one of the server's ports.
    ///
    /// - Throws: ``SettingsError`` for another socket.
    func check(ports: [Int]) throws(SettingsError) {
        let names = ports.map(String.init).joined(separator: " and ")
        for socket in sockets {
            let port = FileDescriptor.listeningPort(socket)
            if let port, ports.contains(port) { continue }
            let place = port.map { "listens on port \($0)" } ?? "does not listen for TCP"
            throw SettingsError(
                place: "http.port",
                message:
                    "The service manager passes a socket that \(place), and the server's settings say \(names). Change ListenStream= of the socket unit, or http.port or http.operator_port."
            )
        }
    }

    // MARK: Messages

    /// A report of the server to its service manager.
    enum Message {
        /// It serves, in words for `systemctl status`.
        case ready(String)
        case reloading
        /// It ends within this time.
        case stopping(within: Duration)
        case alive

        fileprivate var text: String {
            switch self {
            case .ready(let status): "READY=1\nSTATUS=\(status)"
            case .reloading:
                "RELOADING=1\nMONOTONIC_USEC=\(Self.monotonicMicroseconds)\nSTATUS=Reading the settings"
            case .stopping(let limit):
                "STOPPING=1\nSTATUS=Shutting down\nEXTEND_TIMEOUT_USEC=\(limit.wholeMilliseconds * 1000)"
            case .alive: "WATCHDOG=1"
            }
        }

        /// The time of the clock by which a service manager judges whether a reload is the one that it asked for.
        private static var monotonicMicroseconds: Int {
            var time = timespec()
            clock_gettime(CLOCK_MONOTONIC, &time)
            return time.tv_sec * 1_000_000 + time.tv_nsec / 1000
        }
    }

    /// Sends a message, without waiting. It is lost if the service manager does not read its messages.
    func send(_ message: Message) {
        guard let address else { return }
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        var path = Array(address.utf8)
        guard path.count < MemoryLayout.size(ofValue: name.sun_path) else { return }
        if path.first == UInt8(ascii: "@") { path[0] = 0 }
        withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: path) }
        let number = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard number >= 0 else { return }
        let descriptor = FileDescriptor(owning: number)
        let length = socklen_t(MemoryLayout<sa_family_t>.size + path.count)
        let text = Array(message.text.utf8)
        withUnsafePointer(to: &name) { name in
            name.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
                _ = sendto(descriptor.rawValue, text, text.count, Int32(MSG_NOSIGNAL), name, length)
            }
        }
    }

    /// Tells the service manager that the server is alive, twice in the time that it waits. Each loop has to run before each message:
    /// if one is stuck, no message is sent, and the server is restarted. Ends when the task is cancelled.
    func feedWatchdog(_ loops: [EventLoop]) async {
        guard let watchdog, address != nil else { return }
        repeat {
            for loop in loops { await loop.result {} }
            send(.alive)
        } while (try? await loops[0].sleep(for: watchdog / 2)) != nil
    }
}
