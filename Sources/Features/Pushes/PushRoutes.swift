import Endpoints
import EventLoop
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Postgres
import Runtime
import Schemas
import ServiceKit

/// The operations `/v1/push/send` and `/v2/push/send` in the format of Kakao's API, and `/v1/pushes`, where operators
/// send to any number of users and follow the progress.
struct PushRoutes: RouteCollection {
    static let title = "Pushes"
    static let operations =
        [creating, previewing, copying, listing, showing, listingBatches, watching]
        + PushControl.allCases.map(controlling)
        + [approving, rejecting] + PushVersion.allCases.map(sending)

    let store: PushStore
    let pushes: PushReads
    let dryRuns: DryRuns
    /// Returns the settings, some of which a reload replaces.
    let settings: @Sendable () -> PushSettings
    /// The version of Kakao's API that the server calls.
    let kakaoVersion: PushVersion
    let notices: PushNotices
    let events: PushEvents
    /// Checks again whether a request may read: ``Routes/recheck(_:)``.
    let recheckReading: @Sendable (Request) async throws -> Void

    // MARK: Sending as with Kakao's API

    private static let uuids = Field.required(
        "uuids",
        .userIDs(count: 1...SendPush.maximumUsers),
        "The users to send to."
    )
    private static let pushMessage = Field.required(
        "push_message",
        .object,
        "The message: `for_apns`, and `for_gcm` (version 1) or `for_fcm` (version 2)."
    )
    private static let bypass = Field.flag(
        "bypass",
        "Whether the message contains its push token, which need not be registered."
    )

    private static let kind = Field.optional(
        "kind",
        Kind<PushKind>.choice,
        "Whether the push is advertising: not a parameter of Kakao, but of this server."
    )

    private static func sending(_ version: PushVersion) -> Operation<PushRoutes> {
        Operation(
            "sendPush\(version.suffix)",
            .post,
            "\(version.path)/send",
            .operator(.send),
            "Sends a message to up to a hundred users.",
            headers: [Idempotency.field],
            body: .fields([uuids, pushMessage, bypass, kind]),
            unknownFields: .ignored,
            answers: [
                .empty(
                    .ok,
                    "The push is stored, and is sent even if the server stops.",
                    headers: [.location, .warnings]
                )
            ],
            problems: [.idempotencyKeyInUse, .approvalRequired]
        ) { routes in { try await routes.send($0, version) } }
    }

    /// Responds 200 with an empty body once the send is stored. From then on it is carried out even if this process
    /// ends.
    private func send(_ call: Call, _ version: PushVersion) async throws -> Response {
        let settings = settings()
        let message = try call[Self.pushMessage]
        var push = NewPush(
            audience: .users(try call[Self.uuids]),
            message: PushMessage(message, version: version)
        )
        push.createdBy = call.caller.key
        push.bypass = try call[Self.bypass]
        push.kind = try call[Self.kind]
        try push.check(message, in: Self.pushMessage.name, settings, kakaoVersion: kakaoVersion)
        push.approvalAboveUsers = settings.approvalAboveUsers.map(Int64.init)
        // A client of Kakao's API cannot be told that a push waits.
        guard !push.mayNeedApproval else {
            throw Problem(
                of: .approvalRequired,
                "A push to more than \(settings.approvalAboveUsers ?? 0) users needs an approval. Create it with POST /v1/pushes."
            )
        }
        // Kakao may have tokens that were never registered here. As in Kakao's API, users without a token are ignored.
        push.skipsUnknown = false
        push.checksDevices = !push.bypass
        let idempotency = try Idempotency(call)
        let created = try await store.create(&push, idempotency: idempotency, answer: [], now: Date())
        var response = respond(to: created, status: .ok)
        if !push.preview.warnings.isEmpty { response.headerFields[.warnings] = push.preview.warnings.headerValue }
        return response
    }

    // MARK: Creating

    static let dryRun = Field.flag(
        "dry_run",
        "Whether to only show what would be sent. Nothing is stored or sent."
    )

    private static let creating = Operation(
        "createPush",
        .post,
        "/v1/pushes",
        .operator(.send),
        "Creates a push.",
        headers: [Idempotency.field],
        body: .fields(NewPush.fields + [dryRun]),
        answers: [
            .json(.accepted, PushSummary.shape, "The push, which is stored.", headers: [.location]),
            .json(.ok, DryRun.shape, "The result of a dry run."),
        ],
        problems: [.idempotencyKeyInUse, .tooManyDryRuns, .notConfigured],
        handler: create
    )

    @Sendable private func create(_ call: Call) async throws -> Response {
        try await create(NewPush(call, settings(), kakaoVersion: kakaoVersion), for: call)
    }

    /// Creates a push, or performs its dry run, and returns the response.
    func create(_ push: NewPush, for call: Call) async throws -> Response {
        var push = push
        push.waitsUntil = try await pushes.waitsUntil(push)
        if try await pushes.hasPendingDevices(push) { push.preview.add(.pendingDevices) }
        let isDryRun = try call[Self.dryRun]
        let idempotency = isDryRun ? nil : try Idempotency(call)
        if let problem = push.expiryProblem {
            // A repeated request gets its first response, although the hours may have ended since.
            if let earlier = try await store.earlierCreation(idempotency) {
                return respond(to: earlier, status: .accepted)
            }
            try await push.times.check(pushes.pool)
            throw problem
        }
        guard !isDryRun else { return .json(DryRun.shape.json(try await dryRuns.run(push))) }
        if let limit = push.approvalAboveUsers, push.mayNeedApproval {
            // A repetition does not count the users again.
            if let earlier = try await store.earlierCreation(idempotency) {
                return respond(to: earlier, status: .accepted)
            }
            push.counted = CountedUsers(number: try await dryRuns.preview(push).sent, limit: limit)
        }
        // The response contains the time as it is stored, so that it does not change later.
        let now = Date().asStored
        let summary = push.summary(createdAt: now, lastTestedAt: try await pushes.lastTest(of: push.message))
        let answer = PushSummary.shape.json(summary)
        let created = try await store.create(&push, idempotency: idempotency, answer: answer, now: now)
        return respond(to: created, status: .accepted)
    }

    /// Returns the response to a request that creates a push.
    ///
    /// - Parameter status: The status of a request that succeeds.
    func respond(to creation: Creation, status: HTTPResponse.Status) -> Response {
        if !creation.isRepetition { notices.pushChanged() }
        return creation.response(under: "/v1/pushes", status: status)
    }

    // MARK: Showing

    static let id = Field.path("id", .uuid, "The id of the push.")

    private static let pushState = Field.optional(
        "state",
        Kind<PushState>.pushState,
        "Only pushes in this state. `proposed` includes halted pushes that wait for an approval."
    )
    private static let name = Field.optional("name", .text(1...200), "Only pushes whose name begins like this.")
    private static let createdBy = Field.optional(
        "created_by",
        .text(1...200),
        "Only pushes that the operator key with this name created."
    )
    private static let since = Field.optional("since", .time, "Only pushes created since then.")
    private static let until = Field.optional("until", .time, "Only pushes created before then.")
    private static let unfinished = Field.flag(
        "unfinished",
        "Whether only pushes that have not ended are listed."
    )

    private static let listing = Operation(
        "listPushes",
        .get,
        "/v1/pushes",
        .operator(.read),
        "Lists pushes, the latest first.",
        query: [pushState, name, createdBy, since, until, unfinished] + Page<UUID>.fields,
        answers: [.page(of: PushSummary.shape, "The pushes.")],
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<UUID>(call)
        let filter = PushReads.Filter(
            state: try call[Self.pushState],
            name: try call[Self.name],
            createdBy: try call[Self.createdBy],
            since: try call[Self.since],
            until: try call[Self.until],
            isUnfinished: try call[Self.unfinished],
            before: page.cursor
        )
        let summaries = try await pushes.list(filter, limit: page.limit + 1)
        return page.response(summaries, PushSummary.shape, cursor: \.id)
    }

    private static let showing = Operation(
        "getPush",
        .get,
        "/v1/pushes/{id}",
        .operator(.read),
        "Returns a push with its message and its progress.",
        path: [id],
        answers: [.json(.ok, PushSummary.shape, "The push.")],
        problems: [.notFound],
        handler: show
    )

    @Sendable private func show(_ call: Call) async throws -> Response {
        let id = try Self.id(call)
        var push = try await push(id)
        push.message = try await pushes.request(of: id)?.shownMessage(settings(), kakaoVersion: kakaoVersion)
        push.app = ShownApp(dryRuns.server.kakao)
        return .json(PushSummary.shape.json(push))
    }

    private static let batchState = Field.optional("state", Kind<BatchState>.choice, "Only batches in this state.")

    private static let listingBatches = Operation(
        "listBatches",
        .get,
        "/v1/pushes/{id}/batches",
        .operator(.read),
        "Lists the batches of a push, each a request to Kakao.",
        path: [id],
        query: [batchState] + Page<Int32>.fields,
        answers: [.page(of: BatchSummary.shape, "The batches, by their numbers.")],
        problems: [.notFound],
        handler: batches
    )

    @Sendable private func batches(_ call: Call) async throws -> Response {
        let state = try call[Self.batchState]
        let page = try Page<Int32>(call)
        let batches = try await pushes.batches(
            of: Self.id(call),
            state: state?.rawValue,
            after: page.cursor ?? 0,
            limit: page.limit + 1
        )
        guard let batches else { throw Self.notFound }
        return page.response(batches, BatchSummary.shape, cursor: \.number)
    }

    private static let watching = Operation(
        "watchPush",
        .get,
        "/v1/pushes/{id}/events",
        .operator(.read),
        "Streams the progress of a push as server-sent events.",
        path: [id],
        answers: [
            .media(
                .ok,
                ["text/event-stream"],
                "Events named `push`, whose data is the response of `getPush` without `message`, `phones` and `app`: one at once, one each "
                    + "second while something changes, and the last one when the push has ended.",
                schema: .any
            )
        ],
        problems: [.notFound],
        handler: watch
    )

    @Sendable private func watch(_ call: Call) async throws -> Response {
        let id = try Self.id(call)
        return events.response(try await push(id), on: call.request.loop) {
            // The stream ends with its key. The client then connects again, and learns why from the response.
            do { try await recheckReading(call.request) } catch is Problem { return false }
            return true
        } read: {
            try await pushes.summary(id)
        }
    }

    // MARK: Controlling

    private static let uncertain = Field.flag(
        "uncertain",
        "Whether batches of which it is unknown whether Kakao accepted them are sent again too. Users may be reached twice."
    )

    private static func controlling(_ control: PushControl) -> Operation<PushRoutes> {
        Operation(
            "\(control.rawValue)Push",
            .post,
            "/v1/pushes/{id}/\(control.rawValue)",
            .operatorWithAny([.send, .operate]),
            control.summary,
            path: [id],
            body: control == .retry ? .fields([uncertain]) : .none,
            answers: [.json(.ok, PushSummary.shape, "The push.")],
            problems: [.notFound, .wrongState],
            auditing: .handler
        ) { routes in { try await routes.control($0, control) } }
    }

    private func control(_ call: Call, _ control: PushControl) async throws -> Response {
        let id = try Self.id(call)
        let retriesUncertain = control == .retry ? try call[Self.uncertain] : false
        let isChanged = try await store.control(
            id,
            control,
            by: call.caller.keyName,
            retriesUncertain: retriesUncertain,
            hours: settings().hours,
            recording: call.auditRecord(of: .object(id.lowercased))
        )
        if isChanged { notices.pushChanged() }
        let push = try await push(id)
        guard isChanged || control.event.after.contains(push.state) else {
            throw Self.cannot(control.event, push, retriesUncertain: retriesUncertain)
        }
        return .json(PushSummary.shape.json(push))
    }

    /// The problem of an action that a push does not allow.
    ///
    /// - Parameter retriesUncertain: Whether a retry was to include uncertain batches.
    static func cannot(_ action: PushEvent, _ push: PushSummary, retriesUncertain: Bool = false) -> Problem {
        let refusal = push.state.refusal(of: action, awaitsApproval: push.awaitsApproval)
        guard action == .retry else {
            return Problem(of: .wrongState, refusal ?? "The push was changed by a concurrent request. Try again.")
        }
        let obstacle = "Cannot retry the push. \(push.obstacle(toRetrying: retriesUncertain))"
        return Problem(of: .wrongState, refusal ?? obstacle)
    }

    /// Returns the id in the path. An invalid id throws 404, since no push can have it.
    static func id(_ call: Call) throws -> UUID {
        try call.identifier(id, orThrow: notFound)
    }

    static var notFound: Problem { Problem(of: .notFound, "There is no such push.") }

    func push(_ id: UUID) async throws -> PushSummary {
        guard let push = try await pushes.summary(id) else { throw Self.notFound }
        return push
    }
}

extension PushSummary {
    /// Returns why the push, which is done, is not retried, and what can be done instead.
    ///
    /// - Parameter uncertain: Whether its uncertain batches were to be retried, too.
    fileprivate func obstacle(toRetrying uncertain: Bool) -> String {
        if expiresAt.map({ $0 <= Date() }) == true { return "It has expired. A copy of it can be sent." }
        if batches.failed > 0 || (uncertain && batches.uncertain > 0) {
            return "Its batches were deleted. A copy of it can be sent."
        }
        if uncertain { return "None of its batches has failed, and none is uncertain. A copy of it can be sent." }
        guard batches.uncertain > 0 else { return "None of its batches has failed. A copy of it can be sent." }
        return """
            None of its batches has failed, and \(batches.uncertain) \(batches.uncertain == 1 ? "is" : "are") uncertain. Uncertain batches \
            are retried only with `uncertain`, since their users may then be reached twice.
            """
    }
}

extension NewPush.NamedObject {
    /// The problem of a request that names such an object.
    var problem: Problem {
        let (stored, note) = ("the name of a stored audience", "Store it with PUT /v1/audiences/{name}.")
        return switch self {
        case .audience: Problem.field("audience", stored, note)
        case .excludedAudience: Problem.field("except.audience", stored, note)
        case .excludedPush:
            Problem.field(
                "except.pushes",
                "ids of pushes that are not deleted, and are scheduled no later than this one"
            )
        }
    }
}

extension PushControl {
    /// The summary of the operation in the OpenAPI document.
    fileprivate var summary: String {
        switch self {
        case .pause: "Stops sending a push until it is resumed."
        case .resume: "Continues a paused or halted push."
        case .cancel: "Ends a push. What has not been sent is not sent."
        case .retry: "Sends the failed batches of a finished push again."
        }
    }
}

extension Answer.Header {
    fileprivate static let warnings = Answer.Header(
        "X-Warnings",
        "The codes of the warnings about the push, separated by commas, if there are any."
    )
}

extension HTTPField.Name {
    fileprivate static let warnings = unvalidated("X-Warnings")
}

extension ProblemKind {
    static let wrongState = ProblemKind(
        .conflict,
        "wrong-state",
        "The state of the push does not allow the operation."
    )
    fileprivate static let approvalRequired = ProblemKind(
        .forbidden,
        "approval-required",
        "A push to so many users needs an approval, which this operation cannot wait for."
    )
}
