internal import EventLoop
internal import FoundationEssentials
internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import KakaoAPI

/// `/v1/push/send` as Kakao shapes it (and `/v2/push/send`), and `/v1/pushes`, where operators watch what they sent.
struct PushRoutes: Sendable {
    let authenticator: Authenticator
    let store: PushStore
    /// Signalled when a push is stored, so that it is sent at once.
    let wakeup: Wakeup

    func add(to router: inout Router) {
        for version in PushVersion.allCases {
            router.on(.post, "\(version.path)/send") { try await send($0, version) }
        }
        router.on(.get, "/v1/pushes/{id}", show)
        router.on(.post, "/v1/pushes/{id}/resume", resume)
    }

    /// 200 and an empty body once the send is stored: it is carried out whatever happens to this process.
    private func send(_ request: Request, _ version: PushVersion) async throws -> Response {
        try await authenticator.requireOperator(request, .send)
        let parameters = try Parameters(request)
        let userIDs = try parameters.userIDs("uuids", count: 1...KakaoPushAPI.maximumUsers)
        let message = PushMessage(try parameters.object("push_message"), version: version)
        let bypass = try parameters.boolean("bypass", default: false)
        let push = NewPush(id: .v7(), userIDs: userIDs, message: message, bypass: bypass, delivery: .atLeastOnce)
        try await store.create(push)
        wakeup.signal()
        var response = Response.json([])
        response.headerFields[.location] = "/v1/pushes/\(push.id.lowercased)"
        return response
    }

    private func show(_ request: Request) async throws -> Response {
        try await authenticator.requireOperator(request, .read)
        return try await summary(Self.id(request))
    }

    /// Lets a push go on that Kakao's refusal has halted.
    private func resume(_ request: Request) async throws -> Response {
        try await authenticator.requireOperator(request, .send)
        let id = try Self.id(request)
        if try await store.resume(id) { wakeup.signal() }
        return try await summary(id)
    }

    private static func id(_ request: Request) throws -> UUID {
        guard let id = UUID(uuidString: request.pathParameter("id")) else { throw notFound }
        return id
    }

    private static var notFound: Problem { Problem(.notFound, "There is no such push.") }

    private func summary(_ id: UUID) async throws -> Response {
        guard let push = try await store.summary(id) else { throw Self.notFound }
        var json = JSONWriter()
        json.object { json in
            json.member("id", push.id.lowercased)
            json.member("name", push.name)
            json.member("state", push.state.rawValue)
            json.member("reason", push.reason)
            json.member("audience", JSONFragment(push.audience))
            json.member("delivery", push.delivery.rawValue)
            json.member("send_at", push.sendAt?.rfc3339)
            json.member("expires_at", push.expiresAt?.rfc3339)
            json.member("created_at", push.createdAt.rfc3339)
            json.member("started_at", push.startedAt?.rfc3339)
            json.member("finished_at", push.finishedAt?.rfc3339)
            json.object("users") { Self.write(push.users, to: &$0) }
            json.object("batches") { Self.write(push.batches, to: &$0) }
            json.member("users_per_second", push.usersPerSecond)
            json.member("estimated_end", Self.estimatedEnd(push)?.rfc3339)
        }
        return .json(json.bytes)
    }

    private static func write(_ counts: PushCounts, to json: inout JSONWriter.Members) {
        json.member("total", counts.total)
        json.member("sent", counts.sent)
        json.member("failed", counts.failed)
        json.member("uncertain", counts.uncertain)
        json.member("skipped", counts.skipped)
        json.member("pending", counts.pending)
    }

    /// When it ends if it goes on as fast as so far; `nil` when it has ended or nothing is known.
    private static func estimatedEnd(_ push: PushSummary) -> Date? {
        let finished = push.users.total - push.users.pending
        guard push.state == .sending, let startedAt = push.startedAt, finished > 0, push.users.pending > 0 else {
            return nil
        }
        let now = Date()
        return now + now.timeIntervalSince(startedAt) * Double(push.users.pending) / Double(finished)
    }
}
