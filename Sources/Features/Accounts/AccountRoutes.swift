import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Postgres
import Runtime
import Schemas

/// `/v1/accounts`: the accounts, without their tokens, and access tokens for other backends.
struct AccountRoutes: RouteCollection {
    static let title = "Accounts"
    static let operations = [listing, reading, importing, lending, deleting]

    let store: AccountStore
    /// `nil` without a key that encrypts tokens.
    let vault: TokenVault?
    let refresher: TokenRefresher?
    let unlinker: Unlinker
    let kakao: KakaoClient
    let appID: Int64?
    let consentURL: @Sendable (_ userID: Int64, _ scopes: [String]) -> String?

    private static let userID = Field.path("user_id", .userID, "The user.")

    // MARK: Reading

    private static let state = Field.optional("state", Kind<AccountState>.choice, "Only accounts in this state.")
    private static let endsBefore = Field.optional(
        "ends_before",
        .time,
        "Only accounts whose refresh token expires before this time."
    )

    private static let listing = Operation(
        "listAccounts",
        .get,
        "/v1/accounts",
        .operatorWithAny([.accounts, .operate]),
        "Lists the accounts in the order of their users.",
        query: [state, endsBefore] + Page<Int64>.fields,
        answers: [.page(of: Account.shape, "The accounts.")],
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<Int64>(call)
        let statement = ListAccounts(
            state: try call[Self.state],
            endsBefore: try call[Self.endsBefore],
            after: page.cursor,
            limit: page.limit + 1
        )
        return page.response(try await store.pool.read(statement, mayBeBehind: true), Account.shape, cursor: \.userID)
    }

    private static let reading = Operation(
        "getAccount",
        .get,
        "/v1/accounts/{user_id}",
        .operatorWithAny([.accounts, .operate]),
        "Returns an account.",
        path: [userID],
        answers: [.json(.ok, Account.shape, "The account.")],
        problems: [.notFound],
        auditing: .lookup { .user(try $0[userID]) },
        handler: read
    )

    @Sendable private func read(_ call: Call) async throws -> Response {
        let userID = try call.identifier(Self.userID, orThrow: Self.notFound)
        guard let account = try await store.pool.read(FindAccount(userID: userID)).first else { throw Self.notFound }
        return .json(Account.shape.json(account))
    }

    private static var notFound: Problem { Problem(of: .notFound, "There is no account of this user.") }

    // MARK: Import

    private static let accessToken = Field.required("access_token", .token(1...2048), "The access token.")
    private static let refreshToken = Field.optional(
        "refresh_token",
        .token(1...2048),
        "The refresh token. Required if the server refreshes the tokens."
    )
    private static let accessTokenExpiresIn = Field.optional(
        "access_token_expires_in",
        Kind<Int64>.integer(0...31_536_000),
        "The remaining lifetime of the access token in seconds, if it is shorter than Kakao says."
    )
    private static let refreshTokenExpiresIn = Field.optional(
        "refresh_token_expires_in",
        Kind<Int64>.integer(0...315_360_000),
        "The remaining lifetime of the refresh token in seconds. Without it, two months."
    )
    private static let scope = Field.optional(
        "scope",
        .text(0...4096),
        "The scopes that the user has agreed to, separated by spaces, as Kakao names them with the tokens."
    )
    private static let refreshedBy = Field.required(
        "refreshed_by",
        Kind<RefreshingSide>.choice,
        "The side that refreshes the tokens from now on. If both did, each would invalidate the other's tokens."
    )
    private static let appKey = Field.required(
        "app_key",
        Kind<AppKeyKind>.choice,
        "The app key that the tokens were issued for."
    )

    /// The lifetime of an access token at most, in seconds: a year.
    private static let longestLifetime: Int64 = 31_536_000

    private static let importing = Operation(
        "importTokens",
        .put,
        "/v1/accounts/{user_id}/tokens",
        .operator(.accounts),
        "Stores tokens that an app's SDK has obtained.",
        path: [userID],
        body: .fields([
            accessToken, refreshToken, accessTokenExpiresIn, refreshTokenExpiresIn, scope, refreshedBy, appKey,
        ]),
        maximumBodyBytes: RequestSize.small,
        answers: [.empty(.noContent, "The tokens are stored.")],
        problems: [.tokenMismatch, .unlinkPending, .notConfigured, .badGateway, .serverRefused, .kakaoUnavailable],
        auditing: .handler,
        handler: importTokens
    )

    @Sendable private func importTokens(_ call: Call) async throws -> Response {
        let userID = try call[Self.userID]
        let tokens = AccountTokens(
            accessToken: try call[Self.accessToken],
            refreshToken: try call[Self.refreshToken]
        )
        let refreshedBy = try call[Self.refreshedBy]
        let appKey = try call[Self.appKey]
        let scopes = try call[Self.scope]?.split(separator: " ").map(String.init)
        let (accessLifetime, refreshLifetime) = (
            try call[Self.accessTokenExpiresIn], try call[Self.refreshTokenExpiresIn]
        )
        guard let vault, let refresher, let appID else { throw Problem.accountsDisabled }
        guard refreshedBy == .app || tokens.refreshToken != nil else {
            throw Problem.field(Self.refreshToken.name, "a refresh token", "The server is to refresh the tokens.")
        }
        guard refreshedBy == .app || refresher.app.client(appKey) != nil else { throw Problem.appKeyMissing(appKey) }
        let info = try await info(tokens.accessToken)
        guard info.appID == appID else {
            throw Problem(of: .tokenMismatch, "Kakao issued the access token for another app than kakao.app_id.")
        }
        guard let holder = info.userID else {
            throw Problem(
                of: .tokenMismatch,
                "Kakao has no id of the token's user, who is not linked to the app yet. Let the user sign up first."
            )
        }
        guard holder == userID else {
            throw Problem(
                of: .tokenMismatch,
                "Kakao issued the access token for another user than the one in the path."
            )
        }
        let issued = IssuedTokens(
            tokens: tokens,
            accessTokenLifetime: Double(min(info.expiresInSeconds, accessLifetime ?? Self.longestLifetime)),
            refreshTokenLifetime: tokens.refreshToken.map { _ in
                Double(refreshLifetime ?? IssuedTokens.refreshTokenLifetime)
            },
            scopes: scopes
        )
        let login = Login(
            userID: userID,
            appKey: appKey,
            refreshedBy: refreshedBy,
            issued: issued,
            // Kakao does not say whose refresh token it is before it is used.
            isVerified: false
        )
        guard try await store.storeImport(login, vault, recording: call.auditRecord(of: .user(userID))) else {
            throw Problem(of: .unlinkPending, "The user is being unlinked. Only a login links the user again.")
        }
        return Response(.noContent)
    }

    private func info(_ accessToken: String) async throws -> AccessTokenInfo.Answer {
        do throws(KakaoError) {
            return try await kakao.holder(of: accessToken, in: appID)
        } catch {
            guard error.disposition != .logIn, error.disposition != .invalid else {
                throw Problem(
                    of: .tokenMismatch,
                    "Kakao does not accept the access token. Is it an authorization code? Send that to POST /v1/login/code."
                )
            }
            throw Problem(error, about: "the access token", isIdempotent: true)
        }
    }

    // MARK: Access tokens

    private static let lending = Operation(
        "getAccessToken",
        .post,
        "/v1/accounts/{user_id}/access-token",
        .operator(.tokens),
        "Returns a valid access token of a user, refreshed if little of its lifetime remains.",
        path: [userID],
        body: .fields([]),
        maximumBodyBytes: RequestSize.small,
        answers: [.json(.ok, AccessToken.shape, "The access token. No cache may keep it.")],
        problems: [.accountLoginRequired, .refreshedByApp, .notConfigured, .kakaoUnavailable],
        auditing: .lookup { .user(try $0[userID]) },
        handler: lend
    )

    @Sendable private func lend(_ call: Call) async throws -> Response {
        let userID = try call[Self.userID]
        guard let refresher else { throw Problem.accountsDisabled }
        do {
            return .secret(AccessToken.shape.json(try await refresher.accessToken(of: userID)))
        } catch var problem as Problem where problem.kind == ProblemKind.accountLoginRequired.name {
            problem.setConsentURL(consentURL(userID, []))
            throw problem
        }
    }

    // MARK: Deletion

    private static let deleting = Operation(
        "deleteAccount",
        .delete,
        "/v1/accounts/{user_id}",
        .operator(.accounts),
        "Unlinks a user at Kakao, and deletes the user's tokens.",
        path: [userID],
        answers: [
            .empty(.noContent, "The user is unlinked, or was never linked."),
            .pending,
        ],
        problems: [.refusedByKakao, .badGateway, .serverRefused],
        auditing: .kept { .user(try $0[userID]) },
        handler: delete
    )

    @Sendable private func delete(_ call: Call) async throws -> Response {
        let userID = try call[Self.userID]
        let isDone = try await call.request.uninterrupted { [unlinker] in try await unlinker.unlink(userID) }
        return isDone ? Response(.noContent) : .pending
    }
}
