import HTTPServer
import HTTPTypes
import JSON

/// The controls `/sandbox/deliveries`, `/sandbox/reached`, `/sandbox/tokens/fail` and `/sandbox/clock`, which show what was
/// sent, and change the tokens and Kakao's clock (`docs/sandbox.md`).
struct PushControl: Sendable {
    let ledger: Ledger

    func addRoutes(to router: inout Router) {
        router.control(.get, "/sandbox/deliveries", deliveries)
        router.command(.delete, "/sandbox/deliveries") { _ in ledger.deleteDeliveries() }
        router.on(.get, "/sandbox/reached", reached)
        router.command(.post, "/sandbox/tokens/fail", failToken)
        router.command(.delete, "/sandbox/tokens/fail") { _ in ledger.healTokens() }
        router.control(.post, "/sandbox/clock", moveClock)
        router.command(.delete, "/sandbox/clock") { _ in ledger.moveClock(bySeconds: nil) }
    }

    private func deliveries(_ request: Request) throws -> Response {
        let query = try ControlInput(queryOf: request, known: ["user_id", "after", "limit"])
        let (after, limit) = try query.page()
        let userID = try query.integer("user_id", in: 1...Int64.max)
        let page = ledger.deliveries(to: userID, after: after, limit: limit)
        return .page(page, limit: limit, number: \.sequence)
    }

    private func reached(_ request: Request) async throws -> Response {
        let known: Set<String> = ["marker", "user_id", "min_times", "after", "limit"]
        let query = try ControlInput(queryOf: request, known: known)
        guard let marker = try query.string("marker") else {
            return .json { $0.member("items", ledger.reachSummaries()) }
        }
        let limit = try query.limit(default: 1000)
        let after = try query.integer("after", in: 0...Int64.max) ?? 0
        let minimumTimes = Int(try query.integer("min_times", in: 1...Int64(UInt32.max)) ?? 2)
        let summary = ledger.reachSummary(of: marker)
        let users: [(userID: Int64, times: Int)]
        if let userID = try query.integer("user_id", in: 1...Int64.max) {
            users = [(userID, ledger.timesReached(userID, marker: marker))]
        } else {
            users = await offLoop {
                ledger.reached(marker: marker, minimumTimes: minimumTimes, after: after, limit: limit)
            }
        }
        return .json { json in
            summary.writeMembers(to: &json)
            json.array("items") { array in
                for (userID, times) in users {
                    array.object {
                        $0.member("user_id", String(userID))
                        $0.member("times", times)
                    }
                }
            }
            json.member("next", users.count == limit ? users.last.map { String($0.userID) } : nil)
        }
    }

    private func failToken(_ request: Request) throws {
        let input = try ControlInput(bodyOf: request, known: ["push_token"])
        guard ledger.failToken(try input.requiredString("push_token")) else {
            throw Problem(
                .conflict,
                "\(Ledger.maximumFailingTokens) tokens are set to fail already. Clear them with DELETE /sandbox/tokens/fail."
            )
        }
    }

    private func moveClock(_ request: Request) throws -> Response {
        let input = try ControlInput(bodyOf: request, known: ["seconds"])
        let seconds = try input.requiredInteger("seconds", in: 1...Ledger.maximumClockSeconds)
        let now = ledger.moveClock(bySeconds: seconds)
        return .json { $0.member("now", WallClock.text(unixMilliseconds: now)) }
    }
}
