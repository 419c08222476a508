import HTTPClient
import KakaoAPI
import Locking
import Testing

/// The reports of finished calls.
@Suite struct CallTests {
    private static func calls(
        answering answer: String,
        _ body: (KakaoClient) async throws -> Void
    ) async throws -> [KakaoCallReport] {
        let told = Locked<[KakaoCallReport]>([])
        _ = try await withKakao(answering: answer, onCall: { call in told.withLock { $0.append(call) } }, body)
        return told.withLock { $0 }
    }

    @Test("Each call is reported once, by its name, before its caller resumes")
    func answered() async throws {
        let told = Locked<[KakaoCallReport]>([])
        let note: @Sendable (KakaoCallReport) -> Void = { call in told.withLock { $0.append(call) } }
        _ = try await withKakao(answering: answer(200, "[]"), onCall: note) { kakao in
            _ = try await kakao.tokens(userIDs: [1])
            #expect(told.withLock { $0.count } == 1)
            try await kakao.deregister(userID: 1, deviceID: "phone", pushType: .apns)
            #expect(told.withLock { $0.count } == 2)
            try await kakao.send()
            #expect(told.withLock { $0.count } == 3)
        }
        let calls = told.withLock { $0 }
        #expect(calls.map(\.name) == ["push_tokens", "push_deregister", "push_send"])
        #expect(calls.allSatisfy { $0.error == nil && $0.duration > .zero })
    }

    @Test("An error status, an invalid response and a missing response are reported as errors")
    func failed() async throws {
        let refused = try await Self.calls(answering: answer(400, #"{"code":-2,"msg":"said"}"#)) { kakao in
            _ = await failure { () async throws(KakaoError) in try await kakao.send() }
        }
        #expect(refused.map(\.name) == ["push_send"])
        #expect(refused.map { $0.error?.disposition } == [.invalid])

        let bad = try await Self.calls(answering: answer(200, "soon")) { kakao in
            _ = await failure { () async throws(KakaoError) in
                try await kakao.register(userID: 1, deviceID: "phone", pushType: .fcm, pushToken: "token")
            }
        }
        #expect(bad.map(\.name) == ["push_register"])
        guard case .unrecognized = bad.first?.error?.kind else {
            Issue.record("reported as \(bad)")
            return
        }

        let silent = try await Self.calls(answering: "") { kakao in
            _ = await failure { () async throws(KakaoError) in try await kakao.tokens(userIDs: [1]) }
        }
        guard case .unreachable = silent.first?.error?.kind else {
            Issue.record("reported as \(silent)")
            return
        }
    }
}
