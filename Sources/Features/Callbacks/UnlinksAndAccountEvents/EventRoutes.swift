import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import Identity
import Postgres
import Schemas

/// `/kakao/unlink` and `/kakao/account-events`, which Kakao calls, and `/v1/events`, where operators read the events. ``UserLifecycle`` has
/// what follows from an event in other features.
struct EventRoutes: RouteCollection {
    static let title = "Events of users"
    static let operations = [
        listing, receivingUnlink(.get), receivingUnlink(.post), receivingAccountEvents,
    ]

    /// The app's id at Kakao. Without it `/kakao/unlink` is switched off, since a notice could be about another app's user.
    let appID: String?
    /// The verifier of account events. Without a key of the app it is `nil`, and `/kakao/account-events` is switched off.
    let verifier: TokenVerifier?
    /// The client of the same event loop as `pool`.
    let client: HTTPClient
    let pool: PostgresPool
    let intake: CallIntake
    /// The limit of account events with unknown keys, which anyone can make. Shared by all event loops.
    let unknownKeys: AddressLimit
    /// The check of the addresses of account events, whose credential is their signature. The others' is made on their heads.
    let sources: SourceAddressCheck

    // MARK: Unlink notices

    private static func receivingUnlink(_ method: HTTPRequest.Method) -> Operation<EventRoutes> {
        Operation(
            method == .get ? "receiveUnlink" : "receiveUnlinkByPost",
            method,
            "/kakao/unlink",
            .kakao,
            "Withdraws the devices of a user who has left the app. Needs `kakao.app_id`.",
            query: method == .get ? KakaoEvent.unlinkFields : [],
            headers: [Call.kakaoResourceID],
            body: method == .get ? .none : .fields(KakaoEvent.unlinkFields),
            unknownFields: .kept,
            maximumBodyBytes: RequestSize.small,
            answers: [.empty(.ok, "The notice is stored.")],
            problems: [.notConfigured],
            needs: NeededSetting("kakao.app_id") { $0.appID != nil },
            handler: receiveUnlink
        )
    }

    /// Responds with 200 once the notice is committed and the user's devices, if any, are withdrawn; or once it is in
    /// the journal. A notice that names no user of this app has no effect.
    @Sendable private func receiveUnlink(_ call: Call) async throws -> Response {
        guard let appID else { preconditionFailure("without kakao.app_id the operation is switched off") }
        try await intake.receive(.unlink, call.request) {
            let event = KakaoEvent(unlink: call, appID: appID)
            return event.raw == nil ? .understood(.events([event])) : .malformed(.events([event]))
        }
        return Response(.ok)
    }

    // MARK: Account events

    /// The sender is authenticated by the signature of the body, not by the head.
    private static let receivingAccountEvents = Operation(
        "receiveAccountEvents",
        .post,
        "/kakao/account-events",
        .anyone(
            .limited(
                "Only tokens that Kakao has signed are stored. Its keys are fetched every 15 s at most; until then tokens for this app with unknown keys wait in 8 MiB of the disk, and are limited by address."
            )
        ),
        "Stores account events, which Kakao signs. Needs a key of the app, such as `kakao.rest_api_key`.",
        body: .media(["application/secevent+jwt"], "A security event token (RFC 8417).", isChecked: false),
        unknownFields: .kept,
        maximumBodyBytes: 16 * 1024,
        answers: [
            .empty(.accepted, "The events are stored."),
            .json(
                .badRequest,
                SecurityEventRefusal.shape,
                "The token is malformed, or not for this app (RFC 8935)."
            ),
        ],
        problems: [
            .notConfigured, .foreignAddress, .tooManyRequests, .databaseUnavailable, .identityUnavailable, .overloaded,
        ],
        needs: NeededSetting("kakao.rest_api_key") { $0.verifier != nil },
        handler: receiveAccountEvents
    )

    /// Responds with 202 once the events of a security event token are committed and applied, or in the journal, in which a
    /// token with an unknown key also waits until Kakao's keys can be fetched; with 400 for a malformed token or one that Kakao did not issue for this app (RFC 8935 §2).
    @Sendable private func receiveAccountEvents(_ call: Call) async throws -> Response {
        do {
            guard let verifier else { preconditionFailure("without a key of the app the operation is switched off") }
            try await intake.receive(.accountEvent, call.request) { try await read(call.request, verifier) }
            return Response(.accepted)
        } catch let refusal as SecurityEventRefusal {
            return refusal.response
        }
    }

    /// Returns the events of a token that Kakao issued for this app, or the token if its key is unknown and Kakao's keys cannot be
    /// fetched now. Such a token has the form, the size, the issuer and the audience of Kakao's.
    ///
    /// - Throws: ``SecurityEventRefusal``; ``Problem`` 403 for an address that is not Kakao's, 429 for too many tokens with unknown
    ///   keys from an address.
    private func read(_ request: Request, _ verifier: TokenVerifier) async throws -> CallIntake.Reading {
        let receivedAt = Date()
        guard request.contentType == "application/secevent+jwt" else {
            throw SecurityEventRefusal(.invalidRequest, "Unsupported Content-Type. Allowed: application/secevent+jwt.")
        }
        let text = String(decoding: request.body, as: UTF8.self)
        guard let token = JSONWebToken(text, .securityEvent) else {
            throw SecurityEventRefusal(.invalidRequest, "The body must be a signed security event token.")
        }
        let events = try KakaoEvent.all(in: token, receivedAt: receivedAt)
        do {
            if let reason = try await verifier.rejectionReason(of: token, isUrgent: true, client, on: request.loop) {
                throw SecurityEventRefusal(reason)
            }
        } catch let undecided as UndecidedKey {
            try sources.checkUnverified(request)
            try unknownKeys.charge(request)
            return .unverified(
                UnverifiedEvents(token: text, receivedAt: receivedAt),
                .identityUnavailable(retrySeconds: undecided.retrySeconds)
            )
        }
        try sources.check(request, .accountEvent)
        return .understood(.events(events))
    }

    // MARK: Listing

    private static let type = Field.optional("type", .text(1...255), "Only events of this type.")
    private static let userID = Field.optional("user_id", .userID, "Only events of this user.")
    private static let storedSince = Field.optional(
        "stored_since",
        .time,
        "Only events stored since then, however long ago they were received."
    )

    private static let listing = Operation(
        "listEvents",
        .get,
        "/v1/events",
        .operator(.read),
        "Lists the events that Kakao reported about users, the latest first.",
        query: [type, userID, storedSince] + Page<UUID>.fields,
        answers: [.page(of: KakaoEvent.shape, "The events.")],
        auditing: .lookup { .users(try $0[userID].map { [$0] } ?? []) },
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<UUID>(call)
        let (type, userID, storedSince) = (try call[Self.type], try call[Self.userID], try call[Self.storedSince])
        let (before, limit) = (page.cursor, Int64(page.limit + 1))
        // A program that polls would miss events if one page came from a replica and the page before did not.
        let mayBeBehind = storedSince == nil
        let events =
            if let userID {
                try await pool.read(
                    ListEventsOfUser(
                        userID: userID,
                        type: type,
                        storedSince: storedSince,
                        before: before,
                        limit: limit
                    ),
                    mayBeBehind: mayBeBehind
                )
            } else if let type {
                try await pool.read(
                    ListEventsOfType(type: type, storedSince: storedSince, before: before, limit: limit),
                    mayBeBehind: mayBeBehind
                )
            } else {
                try await pool.read(
                    ListEvents(storedSince: storedSince, before: before, limit: limit),
                    mayBeBehind: mayBeBehind
                )
            }
        return page.response(events, KakaoEvent.shape, cursor: \.call.id)
    }
}
