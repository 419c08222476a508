import Dispatch
import EventLoop
import Glibc
import HTTPClient
import KakaoAPI
import Locking
import TestSupport

/// A server that answers every call with the same bytes, and remembers the calls.
final class StubKakao: Sendable {
    let port: UInt16
    private let listener: Int32
    private let answer: [UInt8]
    private let recorded = Locked<[Call]>([])

    /// - Parameter answer: Head and body as they go over the wire; the connection is closed after them. Nothing at all
    ///   for a server that hangs up.
    init(_ answer: String) throws {
        self.answer = Array(answer.utf8)
        (listener, port) = try LoopbackSocket.listen()
        // A queue of its own, for it blocks.
        DispatchQueue(label: "kakao").async { self.serve() }
    }

    deinit {
        close(listener)
    }

    var url: String { "http://127.0.0.1:\(port)" }

    /// The calls that came, in order.
    var calls: [Call] { recorded.withLock { $0 } }

    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
    }

    private func serve() {
        while true {
            let connection = accept(listener, nil, nil)
            guard connection >= 0 else { return }
            if let call = Call(readingFrom: connection) {
                recorded.withLock { $0.append(call) }
                _ = sendAll(answer, to: connection)
            }
            close(connection)
        }
    }
}

/// A port that was free a moment ago.
func unusedPort() throws -> UInt16 {
    let (listener, port) = try LoopbackSocket.listen()
    close(listener)
    return port
}

/// Has Kakao answer `answer`, and calls it.
///
/// - Returns: What `body` returned, and the calls that came.
func withKakao<Result>(
    answering answer: String,
    path: String = "",
    version: PushVersion = .v1,
    onCall: @escaping @Sendable (KakaoCall) -> Void = { _ in },
    _ body: (KakaoPushAPI) async throws -> Result
) async throws -> (result: Result, calls: [Call]) {
    let server = try StubKakao(answer)
    defer { server.stop() }
    let result = try await withPushAPI(url: server.url + path, version: version, onCall: onCall, body)
    return (result, server.calls)
}

/// Calls whatever is at an address.
func withPushAPI<Result>(
    url: String,
    version: PushVersion = .v1,
    timeout: Duration = .seconds(10),
    onCall: @escaping @Sendable (KakaoCall) -> Void = { _ in },
    _ body: (KakaoPushAPI) async throws -> Result
) async throws -> Result {
    let group = try EventLoopGroup(count: 1)
    defer { group.shutdown() }
    let client = try HTTPClient(settings: HTTPClientSettings(totalTimeout: timeout), loop: group.loops[0])
    let settings = KakaoAPISettings(apiURL: url, adminKey: AdminKey("the-admin-key"), pushVersion: version)
    do {
        let result = try await body(KakaoPushAPI(settings: settings, client: client, onCall: onCall))
        await client.shutdown()
        return result
    } catch {
        await client.shutdown()
        throw error
    }
}

/// How a call failed; `nil` if it did not.
func failure<Result>(_ call: () async throws(KakaoError) -> Result) async -> KakaoError? {
    do throws(KakaoError) {
        _ = try await call()
        return nil
    } catch {
        return error
    }
}
