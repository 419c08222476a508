import EventLoop
import FoundationEssentials
import HTTPServer
import HTTPTypes
import Locking
import Pushes
import ServiceTesting
import TestSupport
import Testing

@testable import push_server

/// How `pushes watch` waits for a server.
@Suite(.timeLimit(.minutes(1))) struct PushWatcherTests {
    private struct Failure: Error {}

    private static func event(_ state: String) -> [UInt8] {
        let counts = #"{"total":1,"sent":0,"failed":0,"uncertain":0,"skipped":0}"#
        let push = #"{"id":"p","state":"\#(state)","users":\#(counts),"batches":\#(counts)}"#
        return Array("data: \(push)\n\n".utf8)
    }

    @Test("The time in which a stopped process could not read does not count as the server's absence")
    func patience() async throws {
        let patience = Duration.milliseconds(100)
        let requests = Locked(0)
        let routes: (inout Router) -> Void = { router in
            router.on(.get, "/v1/pushes/{id}/events") { request in
                let count = requests.withLock { count in
                    count += 1
                    return count
                }
                let loop = request.loop
                return Response(.ok, contentType: "text/event-stream") { writer in
                    try await writer.write(Self.event(count == 1 ? "sending" : "done"))
                    guard count == 1 else { return }
                    // Nothing arrives for longer than the watcher would wait for an absent server.
                    try await loop.sleep(for: patience * 3)
                    throw Failure()
                }
            }
        }
        try await withStubServer(routes) { url in
            let server = try ServerClient(url: url, key: "key", caCertificateFile: nil, loop: Shared.loop)
            var watcher = PushWatcher(server: server, id: UUID())
            watcher.patience = patience
            let push = try await watcher.follow()
            #expect(push.state == .done)
            #expect(requests.withLock { $0 } == 2)
            await server.shutdown()
        }
    }
}
