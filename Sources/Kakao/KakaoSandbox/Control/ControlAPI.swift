import Dispatch
import EventLoop
import HTTPServer
import HTTPTypes
import JSON
import Schemas

/// The control API under `/sandbox/*`, by which tests read and change the sandbox (`docs/sandbox.md`).
///
/// Kakao has no such API. It requires no key.
struct ControlAPI: Sendable {
    private static let maximumLimit: Int64 = 10_000

    let settings: KakaoSandboxSettings
    let ledger: Ledger
    let faults: FaultBoard
    let link: LinkCallback
    let unlink: UnlinkCall
    let accountEvents: AccountEventCall
    let stats: @Sendable () -> SandboxStats

    func addRoutes(to router: inout Router) {
        router.add(.get, "/sandbox/stats", .immediate { _ in .json(stats()) })
        router.add(.get, "/sandbox/deliveries", .immediate(deliveries))
        router.add(.delete, "/sandbox/deliveries", .immediate(forgetDeliveries))
        router.on(.get, "/sandbox/reached", reached)
        router.add(.post, "/sandbox/tokens/fail", .immediate(failToken))
        router.add(.delete, "/sandbox/tokens/fail", .immediate(healTokens))
        router.add(.get, "/sandbox/faults", .immediate(listFaults))
        router.add(.post, "/sandbox/faults", .immediate(addFault))
        router.add(.delete, "/sandbox/faults", .immediate(removeFaults))
        router.add(.delete, "/sandbox/faults/{id}", .immediate(removeFault))
        router.add(.post, "/sandbox/clock", .immediate(moveClock))
        router.add(.delete, "/sandbox/clock", .immediate(resetClock))
        router.on(.post, "/sandbox/unlink") {
            try await .json(unlink.send(UnlinkNotice(bodyOf: $0), baseURL: link.baseURL))
        }
        router.on(.post, "/sandbox/account-events") {
            try await .json(accountEvents.send(AccountEvent(bodyOf: $0), baseURL: link.baseURL))
        }
        router.on(.post, "/sandbox/link/share") { try await .json(link.share(LinkShare(bodyOf: $0, settings))) }
    }

    // MARK: Deliveries

    private func deliveries(_ request: Request) throws -> Response {
        let query = try ControlInput(queryOf: request, known: ["user_id", "after", "limit"])
        let after = Int(try query.integer("after", in: 0...Int64.max) ?? 0)
        let limit = Int(try query.integer("limit", in: 1...Self.maximumLimit) ?? 100)
        let userID = try query.integer("user_id", in: 1...Int64.max)
        let page = ledger.deliveries(to: userID, after: after, limit: limit)
        var json = JSONWriter()
        json.object {
            $0.member("items", page)
            $0.member("next", page.count == limit ? page.last?.sequence : nil)
        }
        return .json(json.bytes)
    }

    private func forgetDeliveries(_ request: Request) -> Response {
        ledger.forgetDeliveries()
        return Response(.noContent)
    }

    private func reached(_ request: Request) async throws -> Response {
        let known: Set<String> = ["marker", "user_id", "min_times", "after", "limit"]
        let query = try ControlInput(queryOf: request, known: known)
        guard let marker = try query.string("marker") else {
            return .json(ReachList(summaries: ledger.reachSummaries()))
        }
        let limit = Int(try query.integer("limit", in: 1...Self.maximumLimit) ?? 1000)
        let after = try query.integer("after", in: 0...Int64.max) ?? 0
        let minimumTimes = Int(try query.integer("min_times", in: 1...Int64(UInt32.max)) ?? 2)
        var page = ReachPage(summary: ledger.reachSummary(of: marker), limit: limit)
        if let userID = try query.integer("user_id", in: 1...Int64.max) {
            page.items = [(userID, ledger.timesReached(userID, marker: marker))]
        } else {
            page.items = await offLoop {
                ledger.reached(marker: marker, minimumTimes: minimumTimes, after: after, limit: limit)
            }
        }
        return .json(page)
    }

    // MARK: Tokens

    private func failToken(_ request: Request) throws -> Response {
        let input = try ControlInput(bodyOf: request, known: ["push_token"])
        guard ledger.failToken(try input.requiredString("push_token")) else {
            throw Problem(
                .conflict,
                "\(Ledger.maximumFailingTokens) tokens are set to fail already. Clear them with DELETE /sandbox/tokens/fail."
            )
        }
        return Response(.noContent)
    }

    private func healTokens(_ request: Request) -> Response {
        ledger.healTokens()
        return Response(.noContent)
    }

    // MARK: The clock

    private func moveClock(_ request: Request) throws -> Response {
        let input = try ControlInput(bodyOf: request, known: ["seconds"])
        let seconds = try input.requiredInteger("seconds", in: 1...Ledger.maximumClockSeconds)
        var json = JSONWriter()
        json.object {
            $0.member("now", WallClock.text(unixMilliseconds: ledger.moveClock(bySeconds: seconds)))
        }
        return .json(json.bytes)
    }

    private func resetClock(_ request: Request) -> Response {
        ledger.moveClock(bySeconds: nil)
        return Response(.noContent)
    }

    // MARK: Faults

    private func listFaults(_ request: Request) -> Response {
        var json = JSONWriter()
        json.object { $0.member("items", faults.faults) }
        return .json(json.bytes)
    }

    private func addFault(_ request: Request) throws -> Response {
        guard let id = faults.add(try Fault(bodyOf: request)) else {
            throw Problem(
                .conflict,
                "\(FaultBoard.maximumFaults) faults are active already. Remove some with DELETE /sandbox/faults."
            )
        }
        var json = JSONWriter()
        json.object { $0.member("id", id) }
        return .json(json.bytes, status: .created)
    }

    private func removeFaults(_ request: Request) -> Response {
        faults.removeAll()
        return Response(.noContent)
    }

    private func removeFault(_ request: Request) throws -> Response {
        guard let id = UserID.read(.string(request.pathParameter("id"))), faults.remove(Int(id)) else {
            throw Problem(.notFound, "There is no fault with this id.")
        }
        return Response(.noContent)
    }
}

/// The response to `GET /sandbox/reached`.
private struct ReachList: JSONWritable {
    let summaries: [ReachSummary]

    func write(to writer: inout JSONWriter) {
        writer.object { $0.member("items", summaries) }
    }
}

/// The response to `GET /sandbox/reached?marker=…`.
private struct ReachPage: JSONWritable {
    let summary: ReachSummary
    let limit: Int
    var items: [(userID: Int64, times: Int)] = []

    func write(to writer: inout JSONWriter) {
        writer.object { json in
            summary.writeMembers(to: &json)
            json.array("items") { array in
                for item in items {
                    array.object {
                        $0.member("user_id", String(item.userID))
                        $0.member("times", item.times)
                    }
                }
            }
            json.member("next", items.count == limit ? items.last.map { String($0.userID) } : nil)
        }
    }
}

extension Response {
    /// Returns a response with a value as JSON.
    static func json(_ value: some JSONWritable) -> Response {
        var json = JSONWriter()
        json.value(value)
        return .json(json.bytes)
    }
}

/// Runs a long computation on the blocking queue, so that no event loop waits.
func offLoop<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
    await withCheckedContinuation { continuation in
        EventLoop.blocking.async { continuation.resume(returning: body()) }
    }
}
