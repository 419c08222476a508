package import Endpoints
import HTTPClient
import HTTPServer
import Identity
import KakaoAPI
import Locking
import LogOutput
import Logging
import Net
package import Runtime
package import ServiceKit
package import ServiceLifecycle
import Settings

/// The users whose Kakao tokens the server keeps: logins, refreshes, access tokens for other backends, unlinks.
package struct AccountFeature: Feature {
    package typealias Configuration = AccountSettings

    package static let collections: [any RouteCollection.Type] = [
        LoginRoutes.self, TicketRoutes.self, AccountRoutes.self, UserEndRoutes.self,
    ]

    /// The path of the redirect URI, which is registered at Kakao.
    package static let redirectPath = LoginRoutes.callbackPath

    private let server: ServerContext
    private let settings: AccountSettings
    /// `nil` without a key that encrypts tokens.
    private let vault: TokenVault?
    private let app: LoginApp
    private let counts = RefreshCounts()
    private let knownUnlinks = Locked(RecentValues<Int64, KnownUnlink>(maximum: 20_000))
    private let loginCallbacks: LoginCallbacks
    /// The lines about logins that failed, which strangers can cause.
    private let loginFailures: RepeatedLine

    package init(_ server: ServerContext, _ settings: AccountSettings) {
        self.server = server
        self.settings = settings
        vault = settings.vault(appID: server.kakao.appID)
        app = LoginApp { server.kakao }
        loginCallbacks = LoginCallbacks(
            settings.loginLimits,
            connections: KakaoBudget.logins.maximumConnections(server.kakao.maximumConcurrentRequests)
        )
        loginFailures = RepeatedLine(server.logger)
        server.lifecycle.register { AccountUserObserver(pool: $0.pool, webhooks: server.webhooks) }
        server.monitoring.register(AccountMonitoring(pool: server.background.pool, counts: counts).report)
        server.lostCommits.register("unlinks") { [self] in
            try await unlinker(server.background, .background).restore($0)
        }
    }

    /// Whether the server keeps tokens of users.
    package var keepsTokens: Bool { vault != nil }

    /// Returns the access tokens of accounts, with which other features call Kakao on an event loop.
    package func tokens(_ loop: LoopServices) -> any UserTokenSource {
        StoredUserTokens(refresher: refresher(loop, .requests))
    }

    private func refresher(_ loop: LoopServices, _ budget: KakaoBudget) -> TokenRefresher? {
        vault.map { vault in
            TokenRefresher(
                store: AccountStore(pool: loop.pool),
                vault: vault,
                kakao: loop.kakao(budget),
                app: app,
                intervals: settings.refreshIntervals,
                counts: counts,
                webhooks: server.webhooks,
                loop: loop.loop,
                logger: server.logger
            )
        }
    }

    private func exchange(_ loop: LoopServices, _ vault: TokenVault, _ budget: KakaoBudget) -> CodeExchange {
        CodeExchange(
            store: AccountStore(pool: loop.pool),
            vault: vault,
            kakao: loop.kakao(budget),
            client: loop.client,
            app: app,
            idTokens: server.identity.kakaoTokens,
            loop: loop.loop,
            logger: server.logger
        )
    }

    private func unlinker(_ loop: LoopServices, _ budget: KakaoBudget) -> Unlinker {
        Unlinker(
            pool: loop.pool,
            kakao: loop.kakao(budget),
            observers: server.lifecycle.observers(loop),
            known: knownUnlinks,
            logger: server.logger
        )
    }

    /// Returns the address of the page where a user logs in and agrees to scopes, for the member `consent_url` of a problem;
    /// `nil` if users do not log in here.
    package func consentURL(userID: Int64, scopes: [String]) -> String? {
        guard vault != nil, !settings.returnURLs.isEmpty, let publicURL = server.publicURL.withLock({ $0 }) else {
            return nil
        }
        var query = FormBody()
        query.append("user_id", String(userID))
        if !scopes.isEmpty { query.append("scope", scopes.joined(separator: ",")) }
        return "\(publicURL)\(LoginRoutes.path)?\(String(decoding: query.bytes, as: UTF8.self))"
    }

    package var webhookData: [WebhookData] { AccountWebhooks.data }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let store = AccountStore(pool: loop.pool)
        let kakao = loop.kakao(.requests)
        let unlinker = unlinker(loop, .requests)
        let results = vault.map { LoginResultStore(pool: loop.pool, vault: $0) }
        if let vault, let results {
            routes.add(
                LoginRoutes(
                    settings: settings,
                    kakao: server.kakao,
                    vault: vault,
                    exchange: exchange(loop, vault, .logins),
                    results: results,
                    callbacks: loginCallbacks,
                    failures: loginFailures,
                    publicURL: { [server] in server.publicURL.withLock { $0 } }
                )
            )
        } else {
            // Without an encryption key, the settings allow no return addresses.
            routes.addSwitchedOff(LoginRoutes.self)
        }
        routes.add(
            TicketRoutes(
                results: results,
                exchange: vault.map { exchange(loop, $0, .codes) },
                kakao: loop.kakao(.codes)
            )
        )
        routes.add(
            AccountRoutes(
                store: store,
                vault: vault,
                refresher: refresher(loop, .requests),
                unlinker: unlinker,
                kakao: kakao,
                appID: server.kakao.appID,
                consentURL: consentURL
            )
        )
        routes.add(UserEndRoutes(unlinker: unlinker, kakao: kakao))
    }

    package func makeServices() -> [any Service] {
        let background = server.background
        let unlinks = unlinker(background, .background).worker(on: background, pace: server.pace)
        guard let refresher = refresher(background, .background) else { return [unlinks] }
        return [unlinks, refresher.renewer(pace: server.pace)]
    }

    package var retentions: [Retention] {
        [Retention("remove-old-unlinks", .delete { DeleteOldUnlinks(limit: $0) })]
            + (vault == nil ? [] : [Retention("remove-old-logins", .delete { DeleteExpiredLoginResults(limit: $0) })])
    }
}

/// The access tokens of accounts.
private struct StoredUserTokens: UserTokenSource {
    /// `nil` if the server keeps no tokens.
    let refresher: TokenRefresher?

    func accessToken(of userID: Int64, replacing rejected: String?) async throws -> String {
        guard let refresher else {
            throw Problem(
                of: .accountLoginRequired,
                "Kakao accepts this call only with the user's access token, and none is stored here."
            )
        }
        return try await refresher.accessToken(of: userID, replacing: rejected).text
    }
}
