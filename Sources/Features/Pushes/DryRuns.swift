import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Locking
import Postgres
import Runtime
import Schemas
import ServiceKit
import Settings

/// Performs dry runs: finds out what a push would send, and stores and sends nothing.
struct DryRuns: Sendable {
    /// The maximum number of concurrent dry runs of a server. Each may read a whole audience on a connection of its
    /// own.
    static let maxConcurrentRuns = 2

    let server: ServerContext
    let pushes: PushReads
    let preparations: PreparationStore
    /// Renders the requests that a dry run shows.
    let kakao: KakaoClient
    let concurrency: ConcurrencyLimit

    /// Performs the dry run of a push.
    ///
    /// - Throws: ``Problem`` if the push names something that does not exist, if its times are past, or if too many dry runs are in progress;
    ///   ``PostgresError``.
    func run(_ push: NewPush) async throws -> DryRun {
        let preview = try await preview(push, mayBeBehind: true)
        let pool = preparations.pool
        let app = server.kakao
        let pace = SendingPace(
            usersPerSecond: push.usersPerSecond,
            requestsPerSecond: app.requestsPerSecond,
            concurrentRequests: app.maximumConcurrentRequests,
            meanMilliseconds: server.availability.recentCalls.meanMilliseconds,
            servers: try await pool.read(ListServers()).count
        )
        return DryRun(
            preview: preview,
            kind: push.kind,
            waitsUntil: push.waitsUntil,
            shown: push.preview,
            needsApproval: push.approvalAboveUsers.map { preview.sent > $0 } ?? false,
            lastTestedAt: try await pushes.lastTest(of: push.message),
            durationSeconds: pace.seconds(users: preview.sent, requests: preview.batches),
            waitsFor: try await pool.read(ListUnsettledPushes(ids: push.exclusion?.pushes ?? [])),
            callsThisMonth: try await pool.read(ReadKakaoCalls()).first ?? 0,
            app: ShownApp(app),
            requests: requests(push, to: preview.first)
        )
    }

    /// Reads the audience of a push.
    ///
    /// - Parameter mayBeBehind: Whether a replica may be read, since the result is only shown.
    /// - Throws: As ``run(_:)``.
    func preview(_ push: NewPush, mayBeBehind: Bool = false) async throws -> PreparationStore.Preview {
        guard concurrency.acquire() else {
            throw Problem(
                of: .tooManyDryRuns,
                "This server performs at most \(Self.maxConcurrentRuns) dry runs at a time. Try again.",
                headerFields: [.retryAfter: "5"]
            )
        }
        defer { concurrency.release() }
        try await push.times.check(preparations.pool)
        if let object = try await pushes.invalidObject(of: push) { throw object.problem }
        let source = try await source(of: push.audience)
        let excluded = try await excludedUsers(of: push)
        let preview = { @Sendable (pool: PostgresPool) in
            try await preparations.preview(
                source,
                without: excluded,
                platforms: push.platforms,
                batchUsers: push.batchUsers,
                on: pool
            )
        }
        let primary = preparations.pool
        // The replica may not have all users of the other pushes yet.
        guard mayBeBehind, push.exclusion?.pushes.isEmpty ?? true else { return try await preview(primary) }
        return try await primary.withReplica { pool in
            // An audience is often uploaded just before the dry run.
            if pool !== primary, try await !isStored(push, in: pool) { throw NotReplicated() }
            return try await preview(pool)
        }
    }

    /// Whether a replica has the audiences that a push names, as the primary has them.
    private func isStored(_ push: NewPush, in replica: PostgresPool) async throws -> Bool {
        let names = [push.audience.storedName, push.exclusion?.audience].compactMap(\.self)
        for name in names {
            let parts = try await preparations.parts(ofAudience: name)
            guard try await replica.read(FindAudienceParts(name: name)).first == parts else { return false }
        }
        return true
    }

    private func source(of audience: PushAudience) async throws -> PushAudience.Source {
        switch audience {
        case .users(let ids): return .users(Set(ids).sorted())
        case .stored(let name): return .parts(try await partsID(of: name, orThrow: .audience))
        case .tagsAny(let tags): return .tagsAny(tags)
        case .tagsAll(let tags): return .tagsAll(tags)
        case .everyone: return .everyone
        }
    }

    private func excludedUsers(of push: NewPush) async throws -> ExcludedUsers {
        let exclusion = push.exclusion ?? PushExclusion()
        var excluded = ExcludedUsers(tags: exclusion.tags, pushes: exclusion.pushes)
        if let name = exclusion.audience { excluded.partsID = try await partsID(of: name, orThrow: .excludedAudience) }
        if push.kind == .advertising { excluded.consent = preparations.settings.consent(on: push.platforms) }
        return excluded
    }

    /// Returns the id of the parts of a stored audience.
    private func partsID(of name: AudienceName, orThrow missing: NewPush.NamedObject) async throws -> UUID {
        guard let id = try await preparations.parts(ofAudience: name) else { throw missing.problem }
        return id
    }

    /// Returns the requests to Kakao for batches, without secrets.
    private func requests(_ push: NewPush, to batches: [[Int64]]) -> [HTTPClientRequest] {
        let version = server.kakao.pushVersion
        let shown = PushMessage(push.message.object.maskingPushTokens, version: push.message.version)
        let rendered = shown.rendered(
            for: version,
            returnURL: server.returnURL.withLock { $0 },
            // The push has no id yet.
            pushID: PushIDMember(pushes.settings.idField, id: .zero)
        )
        let masked = server.mask.masked(String(decoding: rendered, as: UTF8.self))
        let message = EncodedPushMessage(Array(masked.utf8))
        return batches.map { userIDs in
            kakao.shownRequest(
                of: SendPush(version: version, userIDs: userIDs, message: message, bypass: push.bypass ? true : nil)
            )
        }
    }
}

/// The limits of the speed at which a push is sent. Pure.
struct SendingPace: Sendable {
    /// The rate of the push, over all servers.
    var usersPerSecond: Int32?
    /// The rate of each server.
    var requestsPerSecond: Int?
    /// The limit of each server.
    var concurrentRequests: Int
    /// The time that Kakao's calls have taken lately; `nil` if there were none.
    var meanMilliseconds: Int64?
    var servers: Int

    /// Returns the time that it takes to send to users, if nothing else is being sent; `nil` if nothing is known that
    /// limits it.
    func seconds(users: Int64, requests: Int64) -> Double? {
        let servers = Double(max(1, servers))
        let times = [
            usersPerSecond.map { Double(users) / Double($0) },
            requestsPerSecond.map { Double(requests) / (Double($0) * servers) },
            meanMilliseconds.map { Double(requests) * Double($0) / 1000 / (Double(concurrentRequests) * servers) },
        ]
        return times.compactMap(\.self).max()
    }
}

/// The result of a dry run.
struct DryRun: Sendable {
    let preview: PreparationStore.Preview
    let kind: PushKind?
    /// When the hours for advertising begin that it would wait for.
    let waitsUntil: Date?
    /// What phones would show.
    let shown: PushPreview
    /// Whether the push would wait for an approval.
    let needsApproval: Bool
    /// When the same message was last sent to a tester; `nil` if it was not.
    let lastTestedAt: Date?
    /// The estimated duration; `nil` if nothing is known that limits it.
    let durationSeconds: Double?
    /// The excluded pushes whose users are not all known yet.
    let waitsFor: [UUID]
    /// The calls of all servers to Kakao since the month began.
    let callsThisMonth: Int64
    let app: ShownApp
    /// The first requests to Kakao, with the Admin key masked.
    let requests: [HTTPClientRequest]

    static let shape = Shape<DryRun>(
        "DryRun",
        [
            .member("dry_run", .boolean, "Always true.") { _ in true },
            .member("app", ShownApp.shape.kind, "The app whose users would be reached.", \.app),
            .member("users", PreparationStore.Preview.usersShape.kind, "The users.", \.preview),
            .member(
                "needs_approval",
                .boolean,
                "Whether the push would wait for an approval: `pushes.approval_above_users`.",
                \.needsApproval
            ),
            .nullable("last_tested_at", .time, "When the same message was last sent to a tester.", \.lastTestedAt),
            .array(
                "waits_for",
                .uuid,
                "The pushes in `except` that the push would wait for. The numbers do not leave out all of their users yet.",
                \.waitsFor
            ),
            .nullable("kind", Kind<PushKind>.choice, "Whether the push is advertising.", \.kind),
            .nullable(
                "waits_until",
                .time,
                "When the hours for advertising begin that it would wait for; null if it would wait for none.",
                \.waitsUntil
            ),
            .array(
                "phones",
                PhoneView.shape.kind,
                "What phones would show, for each platform that the message addresses.",
                \.shown.phones
            ),
            .member("first_words", .text, "The beginning of that, as lists have it.", \.shown.firstWords),
            .array("warnings", PushWarning.shape.kind, "What may be wrong with the message.", \.shown.warnings),
            .member("requests", .count, "The number of requests to Kakao.", \.preview.batches),
            .nullable(
                "duration_seconds",
                .seconds,
                "About how long sending takes at the push's rate, at `kakao.requests_per_second`, and at the speed at which Kakao has "
                    + "answered in the last \(RecentCalls.minutes) minutes; null if none of them is known.",
                \.durationSeconds
            ),
            .member("monthly_quota", quotaShape.kind, "Kakao's limit of the calls of all its APIs in a month.") { $0 },
            .array("first_requests", HTTPClientRequest.shape.kind, "The first of the requests.", \.requests),
        ]
    )

    private static let quotaShape = Shape<DryRun>(
        "DryRunQuota",
        [
            .member("calls", .count, "The calls that Kakao allows in a month without a contract.") { _ in
                KakaoAvailability.monthlyQuota
            },
            .member("used", .count, "Those of this month so far, to a minute.", \.callsThisMonth),
            .member("share", .share, "The share of the month's calls that the push needs: 1 for all of them.") { run in
                Double(run.preview.batches) / Double(KakaoAvailability.monthlyQuota)
            },
        ]
    )
}

extension PreparationStore.Preview {
    fileprivate static let usersShape = Shape<PreparationStore.Preview>(
        "DryRunUsers",
        [
            .member("total", .count, "The users of the audience.", \.users),
            .member("skipped", .count, "Those without a device here that the message addresses.", \.skipped),
            .member(
                "excluded",
                .count,
                "The users whom `except` leaves out; `total` and `skipped` do not count them.",
                \.excluded
            ),
            .member(
                "without_consent",
                .count,
                "The others who have not consented to advertising (`pushes.advertising_tag`); `total` and `skipped` do not count them.",
                \.withoutConsent
            ),
        ]
    )
}

extension HTTPClientRequest {
    fileprivate static let shape = Shape<HTTPClientRequest>(
        "DryRunRequest",
        [
            .member("method", .text, "The method.", \.method.rawValue),
            .member("url", .text, "The address.", \.url),
            .member("headers", .objectText, "The header fields, with the Admin key masked.") { request in
                var json = JSONWriter()
                json.object { json in
                    for field in request.headerFields { json.member(field.name.rawName, field.value) }
                }
                return JSONFragment(json.bytes)
            },
            .member("body", .text, "The body.") { String(decoding: $0.body, as: UTF8.self) },
        ]
    )
}

extension ProblemKind {
    static let tooManyDryRuns = ProblemKind(
        .serviceUnavailable,
        "too-many-dry-runs",
        "The server is performing as many dry runs as it can."
    )
}

// MARK: Statements

/// Lists which of the given pushes are still being prepared or have just ended, so that it is not known yet whom they reach.
struct ListUnsettledPushes: PostgresStatement {
    static let sql: SQL = """
        SELECT id
        FROM unnest($1::uuid[]) AS excluded (id)
        WHERE NOT push_is_settled(id)
        """

    let ids: [UUID]

    var parameters: [PostgresValue] { [.uuids(ids)] }
    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
}
