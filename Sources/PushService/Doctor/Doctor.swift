package import EventLoop
internal import HTTPClient

/// Looks at a configuration as `push-server serve` would use it: at Kakao, at the database, at the addresses that Kakao calls and at
/// this machine.
///
/// It changes nothing anywhere and sends no push. Every check is bounded in time, and none waits for another.
package struct Doctor: Sendable {
    /// Longer than any check takes whose every step runs out of time.
    private static let timeout = Duration.seconds(20)
    /// A shorter text would be found where it is no secret.
    private static let shortestMasked = 8

    private let settings: Settings
    private let migrations: Result<String, any Error>
    private let accessToken: Secret?
    private let loop: EventLoop

    /// - Parameters:
    ///   - migrations: The folder of the SQL files, or why there is none.
    ///   - accessToken: A user's, of Kakao Login: Kakao tells of which app it is.
    ///   - loop: What the checks run on.
    package init(settings: Settings, migrations: Result<String, any Error>, accessToken: Secret?, loop: EventLoop) {
        self.settings = settings
        self.migrations = migrations
        self.accessToken = accessToken
        self.loop = loop
    }

    /// Checks that belong together, under the name of the first.
    private struct Group: Sendable {
        let subject: String
        let findings: @Sendable () async -> [Finding]

        init(_ subject: String, findings: @escaping @Sendable () async -> [Finding]) {
            self.subject = subject
            self.findings = findings
        }
    }

    /// Runs all checks, at the same time.
    ///
    /// - Returns: What they have found, always in the same order.
    /// - Throws: ``HTTPClientError`` when libcurl is out of memory.
    package func findings() async throws -> [Finding] {
        var clients: [HTTPClient] = []
        let groups = try groups(&clients)
        let found = await concurrently(groups.map { group in { await self.findings(of: group) } })
        for client in clients { await client.shutdown() }
        return found.joined().map { Finding($0.state, $0.subject, masked($0.text)) }
    }

    private func groups(_ clients: inout [HTTPClient]) throws -> [Group] {
        let kakao: [Group]
        do throws(HTTPClientError) {
            let client = try makeClient(trusting: settings.kakao.caCertificateFile)
            clients.append(client)
            kakao = kakaoGroups(client)
        } catch {
            guard error.code == .invalidSettings else { throw error }
            let finding = Finding(
                .wrong,
                "kakao.ca_certificate_file",
                "cannot be read, so that nobody is called: \(error.message)"
            )
            kakao = [Group(finding.subject) { [finding] }]
        }
        // As Kakao's servers trust, whatever this server was told to trust at Kakao's.
        let outside = try makeClient(trusting: nil)
        clients.append(outside)
        return keyGroups() + kakao + otherGroups(outside)
    }

    private func keyGroups() -> [Group] {
        let checks = KeyChecks(settings: settings)
        return [Group("operator.key") { checks.findings() }]
    }

    private func kakaoGroups(_ client: HTTPClient) -> [Group] {
        let kakao = KakaoChecks(settings: settings.kakao, accessToken: accessToken, client: client)
        let issuers = IssuerChecks(settings: settings, client: client)
        return [
            Group("kakao.api_url") { await kakao.findings() },
            Group("kakao.auth_url") { [await issuers.kakao()] },
            Group("identity.jwt") { [await issuers.backend()] },
        ]
    }

    private func otherGroups(_ client: HTTPClient) -> [Group] {
        let addresses = AddressChecks(settings: settings, client: client)
        let database = DatabaseChecks(settings: settings, migrations: migrations, loop: loop)
        let machine = MachineChecks(settings: settings)
        return [
            Group("http.public_url") { [await addresses.publicURL()] },
            Group("callbacks") { [await addresses.callbacks()] },
            Group("database") { await database.findings() },
            Group("http.tls") { machine.findings() },
        ]
    }

    private func makeClient(trusting file: String?) throws(HTTPClientError) -> HTTPClient {
        try HTTPClient(
            settings: HTTPClientSettings(totalTimeout: .seconds(5), caCertificateFile: file),
            loop: loop
        )
    }

    /// What a group finds, or that it does not come to an end.
    private func findings(of group: Group) async -> [Finding] {
        let late = [Finding(.wrong, group.subject, "not done within \(Self.timeout.components.seconds) s")]
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

    /// No text is made of a secret. But some quote what others have said.
    private func masked(_ text: String) -> String {
        var secrets = [settings.operatorKey, settings.kakao.adminKey, settings.databaseURL]
        secrets += [settings.feedbackSecret, accessToken].compactMap(\.self)
        if case .secret(let secret) = settings.identity.backend?.keys { secrets.append(secret) }
        return secrets.reduce(text) { text, secret in
            secret.revealed.utf8.count < Self.shortestMasked
                ? text
                : text.split(separator: secret.revealed, omittingEmptySubsequences: false).joined(separator: "***")
        }
    }
}
