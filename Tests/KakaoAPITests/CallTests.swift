import HTTPClient
import KakaoAPI
import Locking
import Testing

/// The reports of finished calls.
@Suite struct CallTests {
    private static func calls(
        answering answer: String,
        _ body: (KakaoPushAPI) async throws -> Void
    ) async throws -> [KakaoCall] {
        let told = Locked<[KakaoCall]>([])
        _ = try await withKakao(answering: answer, onCall: { call in told.withLock { $0.append(call) } }, body)
        return told.withLock { $0 }
    }

    @Test("Each call is reported once, by its name, before its caller resumes")
    func answered() async throws {
        let told = Locked<[KakaoCall]>([])
        let note: @Sendable (KakaoCall) -> Void = { call in told.withLock { $0.append(call) } }
        _ = try await withKakao(answering: answer(200, "[]"), onCall: note) { push in
            _ = try await push.tokens(userIDs: [1])
            #expect(told.withLock { $0.count } == 1)
            try await push.deregister(userID: 1, deviceID: "phone", pushType: .apns)
            #expect(told.withLock { $0.count } == 2)
            try await push.send(SendMessage(Array("{}".utf8)), to: [1])
            #expect(told.withLock { $0.count } == 3)
        }
        let calls = told.withLock { $0 }
        #expect(calls.map(\.api) == [.pushTokens, .pushDeregister, .pushSend])
        #expect(calls.allSatisfy { $0.error == nil && $0.duration > .zero })
    }

    @Test("An error status, an invalid response and a missing response are reported as errors")
    func failed() async throws {
        let refused = try await Self.calls(answering: answer(400, #"{"code":-2,"msg":"said"}"#)) { push in
            _ = await failure { () async throws(KakaoError) in try await push.send(SendMessage([]), to: [1]) }
        }
        #expect(refused.map(\.api) == [.pushSend])
        #expect(refused.map { $0.error?.disposition } == [.invalid])

        let bad = try await Self.calls(answering: answer(200, "soon")) { push in
            _ = await failure { () async throws(KakaoError) in
                try await push.register(userID: 1, deviceID: "phone", pushType: .fcm, pushToken: "token")
            }
        }
        #expect(bad.map(\.api) == [.pushRegister])
        guard case .badAnswer = bad.first?.error?.kind else {
            Issue.record("reported as \(bad)")
            return
        }

        let silent = try await Self.calls(answering: "") { push in
            _ = await failure { () async throws(KakaoError) in try await push.tokens(userIDs: [1]) }
        }
        guard case .unreachable = silent.first?.error?.kind else {
            Issue.record("reported as \(silent)")
            return
        }
    }
}
