import CLibcurl
import EventLoop
import Glibc
import TestSupport
import Testing

@testable import HTTPClient

/// Sockets that libcurl closes without notice.
@Suite struct CurlSocketsTests {
    @Test(
        "A socket that reuses the number of a silently closed one is watched as libcurl expects",
        .timeLimit(.minutes(1))
    )
    func sameNumber() async {
        // In a separate process, so that nothing else reuses the number.
        await #expect(processExitsWith: .success) {
            let (listener, _) = try LoopbackSocket.listen(backlog: 1)
            let group = try EventLoopGroup(count: 1)
            let loop = group.loops[0]
            let ready = Signal()
            let task = Task(executorPreference: loop) {
                let sockets = CurlSockets(loop: loop) { _, events in
                    if events & CURL_CSELECT_OUT != 0 { ready.fire() }
                }
                var address = curl_sockaddr()
                address.family = AF_INET
                address.socktype = Int32(SOCK_STREAM.rawValue)
                let first = sockets.open(address)
                sockets.watch(first, for: CURL_POLL_OUT)
                _ = close(first)
                let second = sockets.open(address)
                #expect(second == first)
                connect(second, to: listener)
                await ready.wait()
                sockets.close(second)
            }
            await task.value
            group.shutdown()
        }
    }
}

/// Starts to connect to a listening socket of this process.
private func connect(_ descriptor: Int32, to listener: Int32) {
    var address = sockaddr()
    var length = socklen_t(MemoryLayout<sockaddr>.size)
    getsockname(listener, &address, &length)
    _ = Glibc.connect(descriptor, &address, length)
}
