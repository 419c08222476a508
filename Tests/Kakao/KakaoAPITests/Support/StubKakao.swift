import Dispatch
import EventLoop
import Glibc
import HTTPClient
import KakaoAPI
import Locking
import TestSupport

/// A server that sends the same bytes in response to every call, and records the calls.
final class StubKakao: Sendable {
    let port: UInt16
    private let listener: Int32
    private let answer: [UInt8]
    private let recorded = Locked<[Call]>([])

    /// - Parameter answer: The head and body to send, after which the connection is closed. If empty, the server closes
    ///   without a response.
    init(_ answer: String) throws {
        self.answer = Array(answer.utf8)
        (listener, port) = try LoopbackSocket.listen()
        // A dedicated queue, because serving blocks.
        DispatchQueue(label: "kakao").async { self.serve() }
    }

    deinit {
        close(listener)
    }

    var url: String { "http://127.0.0.1:\(port)" }

    /// The received calls, in order.
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

/// Returns a port that was free a moment ago.
func unusedPort() throws -> UInt16 {
    let (listener, port) = try LoopbackSocket.listen()
    close(listener)
    return port
}

/// Calls `body` with a client whose server always responds with `answer`.
///
/// - Returns: The result of `body`, and the received calls.
func withKakao<Result>(
    answering answer: String,
    path: String = "",
    version: PushVersion = .v1,
    onCall: @escaping @Sendable (KakaoCallReport) -> Void = { _ in },
    _ body: (KakaoClient) async throws -> Result
) async throws -> (result: Result, calls: [Call]) {
    let server = try StubKakao(answer)
    defer { server.stop() }
    let result = try await withClient(url: server.url + path, version: version, onCall: onCall, body)
    return (result, server.calls)
}

/// Calls `body` with a client of the server at `url`.
func withClient<Result>(
    url: String,
    version: PushVersion = .v1,
    timeout: Duration = .seconds(10),
    onCall: @escaping @Sendable (KakaoCallReport) -> Void = { _ in },
    _ body: (KakaoClient) async throws -> Result
) async throws -> Result {
    let group = try EventLoopGroup(count: 1)
    defer { group.shutdown() }
    let client = HTTPClient(settings: HTTPClientSettings(totalTimeout: timeout), loop: group.loops[0])
    let settings = KakaoAPISettings(
        apiURL: url,
        authURL: url + "/auth",
        adminKey: KakaoKey("admin-key"),
        restAPIKey: KakaoKey("rest-api-key"),
        app: KakaoAppKey(key: KakaoKey("native-app-key"), ka: "sdk/2.27.3 os/ios-17.0"),
        pushVersion: version
    )
    do {
        let result = try await body(KakaoClient(settings: settings, client: client, onCall: onCall))
        await client.shutdown()
        return result
    } catch {
        await client.shutdown()
        throw error
    }
}

/// Returns the error of a call, or `nil` if it succeeded.
func failure<Result>(_ call: () async throws(KakaoError) -> Result) async -> KakaoError? {
    do throws(KakaoError) {
        _ = try await call()
        return nil
    } catch {
        return error
    }
}

extension KakaoClient {
    /// Sends a push.
    func send(_ message: String = "{}", to userIDs: [Int64] = [1], bypass: Bool? = nil) async throws(KakaoError) {
        let message = EncodedPushMessage(Array(message.utf8))
        try await call(
            SendPush(version: settings.pushVersion, userIDs: userIDs, message: message, bypass: bypass)
        )
    }

    /// Registers a device.
    func register(
        userID: Int64 = 1,
        deviceID: String = "a",
        pushType: PushType = .apns,
        pushToken: String = "b"
    ) async throws(KakaoError) -> TokenLifetime {
        try await call(
            RegisterPushToken(
                version: settings.pushVersion,
                userID: userID,
                deviceID: deviceID,
                pushType: pushType,
                pushToken: pushToken
            )
        )
    }

    /// Lists the tokens of users.
    func tokens(userIDs: [Int64] = [1]) async throws(KakaoError) -> [RetrievePushTokens.Token] {
        try await call(RetrievePushTokens(version: settings.pushVersion, userIDs: userIDs))
    }

    /// Deregisters a device.
    func deregister(userID: Int64, deviceID: String, pushType: PushType) async throws(KakaoError) {
        try await call(
            DeregisterPushToken(
                version: settings.pushVersion,
                userID: userID,
                deviceID: deviceID,
                pushType: pushType
            )
        )
    }
}
