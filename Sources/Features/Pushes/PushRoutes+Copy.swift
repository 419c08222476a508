import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Runtime
import Schemas

// Copies of pushes.
extension PushRoutes {
    static let copying = Operation(
        "copyPush",
        .post,
        "/v1/pushes/{id}/copy",
        .operator(.send),
        "Creates a push with the audience, the message and the limits of another one, but not its approval, times or idempotency key.",
        path: [id],
        headers: [Idempotency.field],
        body: .fields(NewPush.fieldsOfCopies + [dryRun]),
        answers: [
            .json(.accepted, PushSummary.shape, "The new push, which is stored.", headers: [.location]),
            .json(.ok, DryRun.shape, "The result of a dry run."),
        ],
        problems: [.notFound, .idempotencyKeyInUse, .tooManyDryRuns, .notConfigured, .notCopyable],
        handler: copy
    )

    @Sendable private func copy(_ call: Call) async throws -> Response {
        let id = try Self.id(call)
        let changes = try CopyChanges(call)
        // A repetition needs no other push, which may have been deleted since the first request.
        if try !call[Self.dryRun], let earlier = try await store.earlierCreation(Idempotency(call)) {
            return respond(to: earlier, status: .accepted)
        }
        guard let request = try await pushes.request(of: id) else { throw Self.notFound }
        let push = try NewPush(copyOf: request, changes, call, settings(), kakaoVersion: kakaoVersion)
        // The request names none of them.
        if let object = try await pushes.invalidObject(of: push) { throw push.problem(ofCopyWithout: object) }
        return try await create(push, for: call)
    }
}

extension NewPush {
    /// The problem of a copy that refers to an object that does not exist any more, or that it cannot leave out.
    fileprivate func problem(ofCopyWithout object: NamedObject) -> Problem {
        let reason =
            switch object {
            case .audience: Self.deletion(of: audience.storedName, "It was sent to")
            case .excludedAudience: Self.deletion(of: exclusion?.audience, "It left out the users of")
            case .excludedPush:
                "It left out the users of a push that was deleted, or that is scheduled for later than the copy. Create a new push."
            }
        return Problem(of: .notCopyable, "The push cannot be copied. \(reason)")
    }

    private static func deletion(of audience: AudienceName?, _ use: String) -> String {
        let name = audience?.text ?? ""
        return """
            \(use) the stored audience \(name), which was deleted since. Store its users again with PUT /v1/audiences/\(name), or create \
            a new push.
            """
    }
}

extension ProblemKind {
    fileprivate static let notCopyable = ProblemKind(
        .conflict,
        "not-copyable",
        "The push refers to an audience or another push that does not exist any more."
    )
}

/// What a copy of a push has in place of the other push's.
private struct CopyChanges {
    let name: String?
    let kind: PushKind?
    let times: SendingTimes

    /// Reads the body of `POST /v1/pushes/{id}/copy`.
    ///
    /// - Throws: ``Problem`` for an invalid field.
    init(_ call: Call) throws {
        name = try call[NewPush.nameField]
        kind = try call[NewPush.kindField]
        times = try SendingTimes(call)
    }
}

extension NewPush {
    /// Creates a copy of a push.
    ///
    /// - Parameters:
    ///   - request: The request that created the other push.
    ///   - changes: What the copy has in place of the other push's.
    ///   - kakaoVersion: The version of Kakao's API that the server calls.
    /// - Throws: ``Problem`` if the settings do not allow the push any more.
    fileprivate init(
        copyOf request: StoredPushRequest,
        _ changes: CopyChanges,
        _ call: Call,
        _ settings: PushSettings,
        kakaoVersion: PushVersion
    ) throws {
        let given: PushAudience? =
            if request.toTesters {
                nil
            } else if let ids = request.userIDs {
                .users(ids)
            } else {
                try Kind<PushAudience>.audience.read(JSONValue(parsing: request.audience))
            }
        self.init(
            audience: try Self.audience(given, toTesters: request.toTesters, settings),
            message: request.message
        )
        toTesters = request.toTesters
        approvalAboveUsers = toTesters ? nil : settings.approvalAboveUsers.map(Int64.init)
        kind = changes.kind ?? request.kind
        bypass = request.bypass
        try check(message.object, in: "message", settings, kakaoVersion: kakaoVersion)
        exclusion = try request.exclusion.map { try Kind<PushExclusion>.exclusion.read(JSONValue(parsing: $0)) }
        createdBy = call.caller.key
        name = changes.name ?? request.name
        delivery = request.delivery
        skipsUnknown = request.skipsUnknown
        usersPerSecond = request.usersPerSecond
        times = changes.times
    }
}
