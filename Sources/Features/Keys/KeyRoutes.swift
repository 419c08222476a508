import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import Identity
import Schemas

/// `/v1/keys`: the keys of operators and backends.
struct KeyRoutes: RouteCollection {
    static let title = "Operator keys"
    static let operations = [creating, listing, deleting]

    let store: OperatorKeyStore

    // MARK: Creating

    private static let name = Field.required(
        "name",
        .text(1...100),
        "The name of the key, such as its owner's. Other keys may have it too."
    )
    private static let role = Field.optional(
        "role",
        Kind<OperatorRole>.choice,
        "A named set of scopes. Required without `scopes`."
    )
    private static let scopes = Field.optional(
        "scopes",
        Kind<Scope>.choice.array(count: 1...Scope.allCases.count),
        "The scopes of the key, in addition to those of the role. Required without `role`."
    )
    private static let expiresAt = Field.optional(
        "expires_at",
        .time,
        "The time at which the key expires. Without it, the key is valid until it is deleted."
    )

    private static let creating = Operation(
        "createKey",
        .post,
        "/v1/keys",
        .operator(.admin),
        "Creates an operator key, and shows it this once.",
        headers: [Idempotency.field],
        body: .fields([name, role, scopes, expiresAt]),
        answers: [
            .json(.created, ShownKey.createdShape, "The key.", headers: [.location, .noStore]),
            .json(
                .ok,
                ShownKey.createdShape,
                "The key that an earlier request with this `Idempotency-Key` has created. The key itself is stored nowhere, and not "
                    + "shown again.",
                headers: [.location, .noStore]
            ),
        ],
        problems: [.idempotencyKeyInUse],
        auditing: .handler,
        asksForKey: true,
        handler: create
    )

    @Sendable private func create(_ call: Call) async throws -> Response {
        guard let creator = call.caller.key else { preconditionFailure("only operators are admitted") }
        let (role, scopes) = (try call[Self.role], try call[Self.scopes])
        guard role != nil || scopes != nil else {
            throw Problem.field(Self.scopes.name, "an array of scopes", "Give role, scopes or both.")
        }
        let expiresAt = try call[Self.expiresAt]
        if let expiresAt, expiresAt <= Date() { throw Problem.field(Self.expiresAt.name, "a time in the future") }
        let new = NewOperatorKey(
            name: try call[Self.name],
            scopes: (role?.scopes ?? []).union(scopes ?? []),
            expiresAt: expiresAt,
            by: creator,
            idempotency: try Idempotency(call)
        )
        let creation = try await store.create(new, recording: call.auditRecord(of: .object(new.id.lowercased)))
        let shown = ShownKey(key: creation.key, secret: creation.secret)
        var response = Response.json(
            ShownKey.createdShape.json(shown),
            status: creation.secret == nil ? .ok : .created
        )
        response.headerFields[.location] = "/v1/keys/\(creation.key.id.lowercased)"
        response.headerFields[.cacheControl] = "no-store"
        return response
    }

    // MARK: Showing

    private static let listing = Operation(
        "listKeys",
        .get,
        "/v1/keys",
        .operator(.admin),
        "Lists the operator keys, also deleted ones, without the keys themselves. The key in the settings is not among them.",
        query: Page<UUID>.fields,
        answers: [.page(of: ShownKey.shape, "The keys, the oldest first.")],
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<UUID>(call)
        let keys = try await store.list(after: page.cursor, limit: page.limit + 1)
        return page.response(keys.map { ShownKey(key: $0) }, ShownKey.shape, cursor: \.key.id)
    }

    // MARK: Deleting

    private static let id = Field.path("id", .uuid, "The id of the key.")

    private static let deleting = Operation(
        "deleteKey",
        .delete,
        "/v1/keys/{id}",
        .operator(.admin),
        "Deletes an operator key. Every server rejects it within a second.",
        path: [id],
        answers: [.empty(.noContent, "The key is deleted.")],
        problems: [.notFound, .lastAdminKey],
        auditing: .handler,
        asksForKey: true,
        handler: delete
    )

    @Sendable private func delete(_ call: Call) async throws -> Response {
        let notFound = Problem(of: .notFound, "There is no such key, or it is deleted.")
        let id = try call.identifier(Self.id, orThrow: notFound)
        guard id != KeyIdentity.setting.id else {
            throw Problem(of: .notFound, "This is the key in the settings. Change operator.key there.")
        }
        switch try await store.delete(id: id, recording: call.auditRecord(of: .object(id.lowercased))) {
        case .deleted: return Response(.noContent)
        case .unknown: throw notFound
        case .lastAdmin:
            throw Problem(
                of: .lastAdminKey,
                "This is the last valid key with the scope admin. Create another one before you delete it."
            )
        }
    }
}

/// A key as a response shows it.
private struct ShownKey: Sendable {
    let key: OperatorKey
    /// The key itself, in the response to its creation.
    var secret: String?

    static let shape = Shape<ShownKey>("OperatorKey", members)
    static let createdShape = Shape<ShownKey>(
        "CreatedOperatorKey",
        members + [
            .nullable(
                "key",
                .text,
                "The key itself, for `Authorization`. It is not shown again: `null` for a repeated request.",
                \.secret
            )
        ]
    )

    private static let members: [Shape<ShownKey>.Member] = [
        .member("id", .uuid, "The id of the key, by which records name it.", \.key.id),
        .member("name", .text, "The name of the key.", \.key.name),
        .array("scopes", .choice, "What the key allows.") { $0.key.scopes.sorted { $0.rawValue < $1.rawValue } },
        .member("created_at", .time, "When the key was created.", \.key.createdAt),
        .nullable(
            "created_by",
            .text,
            "The name of the key that created this one, or the user on the server's machine.",
            \.key.createdBy
        ),
        .nullable(
            "created_by_key",
            .uuid,
            "The id of the key that created this one: zeros for the key in the settings, `null` for a command.",
            \.key.createdByKey
        ),
        .nullable("expires_at", .time, "When the key expires; `null` for never.", \.key.expiresAt),
        .nullable("revoked_at", .time, "When the key was deleted; `null` if it was not.", \.key.revokedAt),
        .nullable("last_used_at", .time, "The last use, to about a minute; `null` for never.", \.key.lastUsedAt),
    ]
}

extension Answer.Header {
    fileprivate static let noStore = Answer.Header("Cache-Control", "`no-store`: the response has a secret.")
}

extension ProblemKind {
    fileprivate static let lastAdminKey = ProblemKind(
        .conflict,
        "last-admin-key",
        "The key is the last valid one with the scope `admin`."
    )
}
