internal import EventLoop
internal import FoundationEssentials
internal import HTTPClient
internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import KakaoAPI
internal import Postgres

/// The routes `/v1/push/send` and `/v2/push/send` in the format of Kakao's API, and `/v1/pushes`, where operators send
/// to any number of users and follow the progress.
struct PushRoutes: Sendable {
    /// The maximum number of concurrent dry runs of a server. Each may read a whole audience on a connection of its
    /// own.
    static let maximumDryRuns = 2

    let authenticator: Authenticator
    let store: PushStore
    let preparations: PreparationStore
    /// Renders the requests that a dry run shows.
    let kakao: KakaoPushAPI
    let version: PushVersion
    let returnURL: @Sendable () -> String?
    /// Masks the feedback secret in the messages that a dry run shows. Messages to Kakao contain it.
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

    /// Responds 200 with an empty body once the send is stored. From then on it is carried out even if this process
    /// ends.
    private func send(_ request: Request, _ version: PushVersion) async throws -> Response {
        let parameters = try Parameters(request)
        let userIDs = try parameters.userIDs("uuids", count: 1...KakaoPushAPI.maximumUsers)
        var push = NewPush(
            audience: .users(userIDs),
            message: PushMessage(try parameters.object("push_message"), version: version)
        )
        push.bypass = try parameters.boolean("bypass", default: false)
        // Kakao may have tokens that were never registered here. As in Kakao's API, users without a token are ignored.
        push.skipsUnknown = false
        return try await store(push, request, answer: [], status: .ok, now: Date())
    }

    private func create(_ request: Request) async throws -> Response {
        let parameters = try Parameters(request)
        let push = try NewPush(parameters)
        guard try !parameters.boolean("dry_run", default: false) else { return try await preview(push) }
        // The response contains the time as it is stored, so that it does not change later.
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
                "This Idempotency-Key was used with a different request. Send each new request with a new key."
            )
        case .noSuchAudience:
            throw Problem.field("audience", "the name of a stored audience. Store it with PUT /v1/audiences/{name}")
        }
        var response = Response.json(body, status: status)
        response.headerFields[.location] = "/v1/pushes/\(id.lowercased)"
        return response
    }

    /// Responds with the number of requests that would be sent to Kakao, and the first of them. Stores and sends
    /// nothing.
    private func preview(_ push: NewPush) async throws -> Response {
        guard dryRuns.take() else {
            throw Problem(
                .serviceUnavailable,
                kind: "too-many-dry-runs",
                "This server performs at most \(Self.maximumDryRuns) dry runs at a time. Try again.",
                headerFields: [.retryAfter: "5"]
            )
        }
        defer { dryRuns.release() }
        let audience: PushAudience.Source
        switch push.audience {
        case .users(let ids): audience = .users(Set(ids).sorted())
        case .stored(let name):
            guard let parts = try await preparations.parts(ofAudience: name) else {
                throw Problem.field("audience", "the name of a stored audience. Store it with PUT /v1/audiences/{name}")
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
    /// Parses the header `Idempotency-Key`. Returns `nil` if the request has none.
    ///
    /// - Throws: ``Problem`` for an invalid key.
    fileprivate init?(_ request: Request, _ operatorKeyID: @autoclosure () -> [UInt8]) throws {
        guard let key = request[.idempotencyKey] else { return nil }
        guard (1...255).contains(key.utf8.count), key.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw Problem.field("Idempotency-Key", "1 to 255 visible ASCII characters")
        }
        // The digest includes the path, because equal bodies at different paths are different requests.
        self.init(
            key: key,
            operatorKeyID: operatorKeyID(),
            digest: SHA256Digest.of(Array("\(request.path)\n".utf8) + request.body)
        )
    }
}
