internal import EventLoop
internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// `/v1/push/*` and `/v2/push/*` as Kakao serves them (Kakao Push REST API), with injected faults.
struct PushAPI: Sendable {
    let settings: KakaoSandboxSettings
    let ledger: Ledger
    let faults: FaultBoard
    let delays: Delays
    let feedback: FailureFeedback

    func addRoutes(to router: inout Router) {
        for version in PushVersion.allCases {
            for call in PushCall.allCases {
                let path = "/\(version.rawValue)/push/\(call.rawValue)"
                let handler = Handler.task { try await answer($0, path: path, call: call, version: version) }
                router.add(.post, path, handler)
                if call == .tokens { router.add(.get, path, handler) }
            }
        }
    }

    /// Executes a call and returns its response, unless a fault replaces it.
    ///
    /// A latency fault delays only the response. The request is executed as soon as it has been read, so a caller that
    /// times out cannot know whether it was executed.
    private func answer(_ request: Request, path: String, call: PushCall, version: PushVersion) async throws -> Response
    {
        let command: Result<PushCommand, KakaoRefusal> = Result { () throws(KakaoRefusal) in
            try authorize(request)
            return try call.parse(PushForm(request), version: version, settings: settings)
        }
        let verdict = faults.verdict(on: path, users: (try? command.get())?.userIDs ?? [])
        var response: Response?
        if verdict.end == nil || verdict.isCarriedOut {
            response = carryOut(command, version: version)
        }
        if let delay = verdict.delay { try await delays.wait(delay, on: request.loop) }
        switch verdict.end {
        case .refuse(let refusal): return refusal.response
        case .drop: throw ConnectionAbort()
        case nil: return response ?? Response.json([])
        }
    }

    private func authorize(_ request: Request) throws(KakaoRefusal) {
        guard let authorization = request[.authorization] else {
            throw .unauthorized("cannot find Authorization : KakaoAK header")
        }
        guard authorization == "KakaoAK \(settings.adminKey)" else { throw .unauthorized("wrong appKey") }
    }

    private func carryOut(_ command: Result<PushCommand, KakaoRefusal>, version: PushVersion) -> Response {
        do throws(KakaoRefusal) {
            switch try command.get() {
            case .register(let key, let userID, let pushToken):
                try ledger.register(key, userID: userID, pushToken: pushToken)
                return .json(Array(String(settings.tokenLifetimeDays).utf8))
            case .tokens(let userIDs):
                return .json(tokenList(of: userIDs, version: version))
            case .deregister(let key, let userID):
                ledger.deregister(key, userID: userID)
            case .send(let send):
                for failure in ledger.carryOut(send) { feedback.report(failure) }
            }
            return .json([])
        } catch {
            return error.response
        }
    }

    private func tokenList(of userIDs: [Int64], version: PushVersion) -> [UInt8] {
        var json = JSONWriter()
        json.array { array in
            for userID in userIDs {
                for token in ledger.tokens(of: userID) {
                    array.object {
                        $0.member("user_id", String(userID))
                        $0.member("device_id", token.key.deviceID)
                        $0.member("push_type", token.key.platform.name(in: version))
                        $0.member("push_token", token.pushToken)
                        $0.member("created_at", WallClock.text(unixMilliseconds: token.createdAt))
                        $0.member("updated_at", WallClock.text(unixMilliseconds: token.updatedAt))
                    }
                }
            }
        }
        return json.bytes
    }
}
