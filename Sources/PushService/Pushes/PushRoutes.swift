internal import EventLoop
internal import FoundationEssentials
internal import HTTPClient
internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import KakaoAPI
internal import Postgres

/// `/v1/push/send` as Kakao shapes it (and `/v2/push/send`), and `/v1/pushes`, where operators send to any number of users and see what
/// becomes of it.
struct PushRoutes: Sendable {
    /// Dry runs that a server does at a time, each of which may read a whole audience on a connection of its own.
    static let maximumDryRuns = 2

    let authenticator: Authenticator
    let store: PushStore
    let preparations: PreparationStore
    /// Renders what a dry run shows.
    let kakao: KakaoPushAPI
    let version: PushVersion
    let returnURL: @Sendable () -> String?
    /// Masks the feedback secret, which Kakao gets with the message, in what a dry run shows.
    let mask: SecretMask
    let dryRuns: UploadLimit
    let notices: PushNotices
    let events: PushEvents

    func add(to router: inout ServiceRouter) {
        for version in PushVersion.allCases {
            router.on(.post, "\(version.path)/send", .operator(.send)) { try await send($0, version) }
        }
        router.on(.post, "/v1/pushes", .operator(.send), create)
        router.on(.get, "/v1/pushes", .operator(.read), list)
        router.on(.get, "/v1/pushes/{id}", .operator(.read), show)
        router.on(.get, "/v1/pushes/{id}/batches", .operator(.read), batches)
        router.on(.get, "/v1/pushes/{id}/events", .operator(.read), watch)
        for control in PushControl.allCases {
            router.on(.post, "/v1/pushes/{id}/\(control.rawValue)", .operator(.send)) {
                try await self.control($0, control)
            }
        }
    }

    // MARK: Creating

    /// 200 and an empty body once the send is stored: it is carried out whatever happens to this process.
    private func send(_ request: Request, _ version: PushVersion) async throws -> Response {
        let parameters = try Parameters(request)
        let userIDs = try parameters.userIDs("uuids", count: 1...KakaoPushAPI.maximumUsers)
        var push = NewPush(
            audience: .users(userIDs),
            message: PushMessage(try parameters.object("push_message"), version: version)
        )
        push.bypass = try parameters.boolean("bypass", default: false)
        // As Kakao does: it may have tokens that were never registered here, and ignores users without one.
        push.skipsUnknown = false
        return try await store(push, request, answer: [], status: .ok, now: Date())
    }

    private func create(_ request: Request) async throws -> Response {
        let parameters = try Parameters(request)
        let push = try NewPush(parameters)
        guard try !parameters.boolean("dry_run", default: false) else { return try await preview(push) }
        // It is answered with, and shown later as it was stored.
        let now = Date().asStored
        return try await store(
            push,
            request,
            answer: push.summary(createdAt: now).json(),
            status: .accepted,
            now: now
        )
    }

    private func store(
        _ push: NewPush,
        _ request: Request,
        answer: [UInt8],
        status: HTTPResponse.Status,
        now: Date
    ) async throws -> Response {
        let idempotency = try PushStore.Idempotency(request, authenticator.operatorKeyID(of: request))
        var (id, body) = (push.id, answer)
        switch try await store.create(push, idempotency: idempotency, answer: answer, now: now) {
        case .created:
            notices.pushChanged()
        case .repeated(let pushID, let firstAnswer):
            (id, body) = (pushID, firstAnswer)
        case .keyInUse:
            throw Problem(
                .unprocessableContent,
                kind: "idempotency-key-in-use",
                "This Idempotency-Key was used with another request. Send each new request with a key of its own."
            )
        case .noSuchAudience:
            throw Problem.field("audience", "the name of an audience that is stored: PUT /v1/audiences/{name}")
        }
        var response = Response.json(body, status: status)
        response.headerFields[.location] = "/v1/pushes/\(id.lowercased)"
        return response
    }

    /// What Kakao would be sent, and how often; nothing is stored and nothing sent.
    private func preview(_ push: NewPush) async throws -> Response {
        guard dryRuns.take() else {
            throw Problem(
                .serviceUnavailable,
                kind: "too-many-dry-runs",
                "This server does \(Self.maximumDryRuns) dry runs at a time. Try again.",
                headerFields: [.retryAfter: "5"]
            )
        }
        defer { dryRuns.release() }
        let audience: PushAudience.Source
        switch push.audience {
        case .users(let ids): audience = .users(Set(ids).sorted())
        case .stored(let name):
            guard let parts = try await preparations.parts(ofAudience: name) else {
                throw Problem.field("audience", "the name of an audience that is stored: PUT /v1/audiences/{name}")
            }
            audience = .parts(parts)
        case .tagsAny(let tags): audience = .tagsAny(tags)
        case .tagsAll(let tags): audience = .tagsAll(tags)
        case .everyone: audience = .everyone
        }
        let preview = try await preparations.preview(
            audience,
            platforms: push.platforms,
            batchUsers: push.batchUsers
        )
        let rendered = push.message.rendered(for: version, returnURL: returnURL())
        let message = SendMessage(
            Array(mask.masked(String(decoding: rendered, as: UTF8.self)).utf8),
            bypass: push.bypass
        )
        var json = JSONWriter()
        json.object { json in
            json.member("dry_run", true)
            json.object("users") { json in
                json.member("total", preview.users)
                json.member("skipped", preview.skipped)
            }
            json.member("requests", preview.batches)
            json.array("first_requests") { json in
                for userIDs in preview.first {
                    let request = kakao.sendRequest(message, to: userIDs)
                    json.object { json in
                        json.member("method", request.method.rawValue)
                        json.member("url", request.url)
                        json.object("headers") { json in
                            for field in request.headerFields { json.member(field.name.rawName, field.value) }
                        }
                        json.member("body", String(decoding: request.body, as: UTF8.self))
                    }
                }
            }
        }
        return .json(json.bytes)
    }

    // MARK: Showing

    private func list(_ request: Request) async throws -> Response {
        let parameters = try Parameters(request)
        let state = try parameters.optionalChoice("state", of: PushState.self)
        let page = try Page<UUID>(parameters)
        let pushes = try await store.list(state: state, before: page.cursor, limit: page.limit + 1)
        return page.response(pushes, cursor: \.id) { $0.write(to: &$1) }
    }

    private func show(_ request: Request) async throws -> Response {
        try await summary(Self.id(request))
    }

    private func batches(_ request: Request) async throws -> Response {
        let parameters = try Parameters(request)
        let state = try parameters.optionalChoice("state", of: BatchState.self)
        let page = try Page<Int32>(parameters)
        let batches = try await store.batches(
            of: Self.id(request),
            state: state?.rawValue,
            after: page.cursor ?? 0,
            limit: page.limit + 1
        )
        guard let batches else { throw Self.notFound }
        return page.response(batches, cursor: \.number) { $0.write(to: &$1) }
    }

    private func watch(_ request: Request) async throws -> Response {
        let id = try Self.id(request)
        guard let push = try await store.summary(id) else { throw Self.notFound }
        return events.response(push, on: request.loop) { try await store.summary(id) }
    }

    // MARK: Controlling

    private func control(_ request: Request, _ control: PushControl) async throws -> Response {
        let id = try Self.id(request)
        var retriesUncertain = false
        if control == .retry, !request.body.isEmpty {
            let parameters = try Parameters(request)
            try parameters.requireOnly(["uncertain"])
            retriesUncertain = try parameters.boolean("uncertain", default: false)
        }
        guard try await !store.control(id, control, retriesUncertain: retriesUncertain) else {
            notices.pushChanged()
            return try await summary(id)
        }
        guard let push = try await store.summary(id) else { throw Self.notFound }
        guard control.event.after.contains(push.state) else {
            throw Problem(
                .conflict,
                kind: "wrong-state",
                "Cannot \(control.rawValue) a push in state `\(push.state.rawValue)`."
            )
        }
        return .json(push.json())
    }

    private static func id(_ request: Request) throws -> UUID {
        guard let id = UUID(uuidString: request.pathParameter("id")) else { throw notFound }
        return id
    }

    private static var notFound: Problem { Problem(.notFound, "There is no such push.") }

    private func summary(_ id: UUID) async throws -> Response {
        guard let push = try await store.summary(id) else { throw Self.notFound }
        return .json(push.json())
    }
}

extension HTTPField.Name {
    fileprivate static let idempotencyKey = unvalidated("Idempotency-Key")
}

extension PushStore.Idempotency {
    /// What the header says, if it is there.
    ///
    /// - Throws: ``Problem`` for a key that is none.
    fileprivate init?(_ request: Request, _ operatorKeyID: @autoclosure () -> [UInt8]) throws {
        guard let key = request[.idempotencyKey] else { return nil }
        guard (1...255).contains(key.utf8.count), key.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw Problem.field("Idempotency-Key", "1 to 255 visible ASCII characters")
        }
        // The path too: what is asked for at one address is not what is asked for at another.
        self.init(
            key: key,
            operatorKeyID: operatorKeyID(),
            digest: SHA256Digest.of(Array("\(request.path)\n".utf8) + request.body)
        )
    }
}
