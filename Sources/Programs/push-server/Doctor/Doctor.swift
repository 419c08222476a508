import Crypto
import EventLoop
import HTTPClient
import HTTPServer
import Identity
import Net
import Server
import Settings

/// The checks of a configuration as `push-server serve` would use it: Kakao, the database, the addresses that Kakao
/// calls, and this machine.
///
/// The checks change nothing and send no push. They run concurrently, each within a time limit.
struct Doctor: Sendable {
    /// The time limit of a group of checks. It is longer than a group takes when each of its steps times out.
    private static let timeout = Duration.seconds(40)
    /// The length in bytes of the shortest secret that is masked. A shorter one would match text that is not secret.
    private static let shortestMasked = 8

    let settings: Settings
    /// The folder of the SQL files, or the error of the search for it.
    let migrations: String?
    /// A user's access token of Kakao Login. Kakao returns the id of the app that it belongs to.
    let accessToken: Secret?
    /// The event loop that the checks run on.
    let loop: EventLoop

    /// Checks that run as a unit, named after the first.
    private struct Group: Sendable {
        let subject: String
        let findings: @Sendable () async -> [Finding]

        init(_ subject: String, findings: @escaping @Sendable () async -> [Finding]) {
            self.subject = subject
            self.findings = findings
        }

        /// Creates a group of one check.
        init(_ subject: String, verdict: @escaping @Sendable () async -> Verdict) {
            self.init(subject, findings: { [Finding(subject, await verdict())] })
        }
    }

    /// Runs all checks concurrently.
    ///
    /// - Returns: The findings, always in the same order.
    func findings() async -> [Finding] {
        var clients: [HTTPClient] = []
        let groups = groups(&clients)
        let found = await concurrently(groups.map { group in { await self.findings(of: group) } })
        for client in clients { await client.shutdown() }
        return found.joined().map { Finding($0.subject, Verdict(state: $0.state, text: masked($0.text))) }
    }

    private func groups(_ clients: inout [HTTPClient]) -> [Group] {
        let kakao: [Group]
        do throws(TLSError) {
            let trust = try TrustStore.reading(settings.kakao.caCertificateFile)
            let client = makeClient(trust, settings.kakao.proxy)
            clients.append(client)
            kakao = kakaoGroups(client)
        } catch {
            let verdict = Verdict.wrong("cannot be read, so the checks of Kakao did not run: \(error)")
            kakao = [Group("kakao.ca_certificate_file", verdict: { verdict })]
        }
        // Trusts the system's certificates, as Kakao's servers do, and not kakao.ca_certificate_file.
        let outside = makeClient(.system, nil)
        clients.append(outside)
        let keys = KeyChecks(settings: settings)
        return [Group("operator.key", findings: { keys.findings() })] + kakao + otherGroups(outside)
    }

    private func kakaoGroups(_ client: HTTPClient) -> [Group] {
        let kakao = KakaoChecks(
            settings: settings.kakao,
            hasTrustedProxies: settings.http.trustedProxies != .none,
            accessToken: accessToken,
            client: client
        )
        let issuers = IssuerChecks(settings: settings, client: client)
        let login = LoginChecks(settings: settings, client: client)
        return [
            Group("kakao.api_url", findings: { await kakao.findings() }),
            Group("kakao.auth_url", verdict: { await issuers.kakao() }),
            Group("kakao.rest_api_key", findings: { await login.keys() }),
            Group("login.redirect_uri", verdict: { await login.redirectURI() }),
            Group("identity.jwt", verdict: { await issuers.backend() }),
        ]
    }

    private func otherGroups(_ client: HTTPClient) -> [Group] {
        let addresses = AddressChecks(settings: settings, client: client)
        let database = DatabaseChecks(settings: settings, migrations: migrations, loop: loop)
        let machine = MachineChecks(settings: settings)
        return [
            Group("http.public_url", verdict: { await addresses.publicURL() }),
            Group("callbacks", verdict: { await addresses.callbacks() }),
            Group("http.operator_port", verdict: { await addresses.operatorPort() }),
            Group("database", findings: { await database.findings() }),
            Group("http.tls", findings: { machine.findings() }),
        ]
    }

    private func makeClient(_ trust: TrustStore, _ proxy: HTTPProxy?) -> HTTPClient {
        HTTPClient(settings: HTTPClientSettings(totalTimeout: .seconds(10), trust: trust, proxy: proxy), loop: loop)
    }

    /// Returns the findings of a group, or one finding that says that it timed out.
    private func findings(of group: Group) async -> [Finding] {
        let late = [Finding(group.subject, .wrong("timed out after \(Self.timeout.components.seconds) s"))]
        let found = try? await Promise<[Finding]>.value(on: loop) { [loop] promise in
            let timer = loop.schedule(after: Self.timeout) { promise.complete(.success(late)) }
            Task {
                let findings = await group.findings()
                loop.execute {
                    loop.cancel(timer)
                    promise.complete(.success(findings))
                }
            }
        }
        return found ?? late
    }

    /// Replaces each secret in a finding's text with `***`.
    ///
    /// No text is built from a secret, but some quote the responses of other servers.
    private func masked(_ text: String) -> String {
        var secrets = [settings.identity.operatorKey, settings.kakao.adminKey, settings.databaseURL]
        secrets += [
            settings.kakao.nextAdminKey, settings.identity.feedbackSecret, settings.kakao.clientSecret, accessToken,
            settings.replicaURL,
        ].compactMap(\.self)
        if case .secret(let secret) = settings.identity.backend?.keys { secrets.append(secret) }
        return secrets.reduce(text) { text, secret in
            secret.revealed.utf8.count < Self.shortestMasked
                ? text
                : text.split(separator: secret.revealed, omittingEmptySubsequences: false).joined(separator: "***")
        }
    }
}
