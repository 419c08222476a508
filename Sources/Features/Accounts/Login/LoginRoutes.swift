import Crypto
import Endpoints
import HTTPServer
import HTTPTypes
import Identity
import JSON
import LogOutput
import Logging
import Net
import Schemas
import Settings

/// `/login/kakao` and `/login/kakao/callback`: the login of a user in a browser (RFC 6749 §4.1, RFC 7636; Kakao, "Kakao
/// Login: REST API").
struct LoginRoutes: RouteCollection {
    static let title = "Kakao Login in a browser"
    static let operations = [starting, finishing]

    static let path = "/login/kakao"
    static let callbackPath = "/login/kakao/callback"

    /// The errors of Kakao that the service gets to know; others become `server_error`. (Kakao's SDK,
    /// `AuthFailureReason`.)
    private static let errors: Set<String> = [
        "access_denied", "auto_login", "consent_required", "interaction_required", "invalid_client", "invalid_grant",
        "invalid_request", "invalid_scope", "login_required", "misconfigured", "unauthorized", "unauthorized_client",
    ]

    let settings: AccountSettings
    let kakao: KakaoSettings
    let vault: TokenVault
    let exchange: CodeExchange
    let results: LoginResultStore
    /// Shared by all event loops, as is `failures`.
    let callbacks: LoginCallbacks
    let failures: RepeatedLine
    /// The URL at which browsers reach the server; `nil` if none is set.
    let publicURL: @Sendable () -> String?

    private static let returnURLs = NeededSetting<LoginRoutes>("login.return_urls") { !$0.settings.returnURLs.isEmpty }

    // MARK: Start

    private static let returnTo = Field.optional(
        "return_to",
        .text(1...2048),
        "The address that the user returns to: one of `login.return_urls`, with any query. Without it, the first of them."
    )
    private static let state = Field.optional(
        "state",
        .text(1...1024),
        "A value that comes back unchanged. The service compares it with its own session."
    )
    private static let scope = Field.optional("scope", .names, "Scopes to ask for, separated by commas or spaces.")
    private static let serviceTerms = Field.optional(
        "service_terms",
        .names,
        "Tags of service terms, separated by commas."
    )
    private static let prompt = Field.optional(
        "prompt",
        .names,
        "`login`, `none`, `create`, `select_account` or `cert`, or several separated by commas."
    )
    private static let loginHint = Field.optional("login_hint", .text(1...320), "The Kakao account to suggest.")
    private static let userID = Field.optional(
        "user_id",
        .userID,
        "The user that must log in. Another one is refused with `error=wrong_account`."
    )

    private static let starting = Operation<LoginRoutes>(
        OperationDeclaration(
            "startLogin",
            .get,
            path,
            .anyone(.constantCost),
            "Redirects a browser to Kakao's login. Needs `login.return_urls`.",
            query: [returnTo, state, scope, serviceTerms, prompt, loginHint, userID],
            answers: [
                .empty(
                    .found,
                    "Kakao's login.",
                    headers: [
                        Answer.Header("Location", "Kakao's login."),
                        Answer.Header("Set-Cookie", "The login in progress, encrypted."),
                    ]
                )
            ],
            problems: [.notConfigured]
        ),
        needs: returnURLs,
        immediate: start
    )

    @Sendable private func start(_ call: Call) throws -> Response {
        let returnTo = try call[Self.returnTo] ?? settings.returnURLs[0]
        guard let address = ReturnAddress(returnTo, allowed: settings.returnURLs) else {
            throw Problem.field(Self.returnTo.name, "an address of login.return_urls, with any query")
        }
        let state = try call[Self.state]
        let login = LoginCookie(returnTo: address.text, state: state, userID: try call[Self.userID])
        guard let cookie = login.header(vault) else {
            throw Problem.field(
                Self.state.name,
                "at most about 2000 bytes together with return_to",
                "No more fit into the cookie of a login, in which \" and \\ count twice."
            )
        }
        var query = FormBody()
        query.append("client_id", kakao.restAPIKey ?? "")
        query.append("redirect_uri", try redirectURI)
        query.append("response_type", "code")
        query.append("state", login.id)
        query.append("nonce", login.nonce)
        query.append("code_challenge", login.codeChallenge)
        query.append("code_challenge_method", "S256")
        if var scopes = try call[Self.scope] {
            // Kakao issues no ID token for scopes without it.
            if settings.usesOpenIDConnect, !scopes.contains("openid") { scopes.append("openid") }
            query.append("scope", scopes.joined(separator: ","))
        }
        if let tags = try call[Self.serviceTerms] { query.append("service_terms", tags.joined(separator: ",")) }
        if let prompts = try call[Self.prompt] { query.append("prompt", prompts.joined(separator: ",")) }
        if let hint = try call[Self.loginHint] { query.append("login_hint", hint) }
        return redirect(
            to: "\(kakao.authURL)/oauth/authorize?\(String(decoding: query.bytes, as: UTF8.self))",
            cookies: LoginCookie.surplus(call.request).map(LoginCookie.deletion) + [cookie]
        )
    }

    /// The address that Kakao returns to. It is registered at Kakao.
    private var redirectURI: String {
        get throws {
            guard let publicURL = publicURL() else {
                throw Problem(of: .notConfigured, "Set http.public_url: Kakao returns browsers to this address.")
            }
            return publicURL + Self.callbackPath
        }
    }

    // MARK: Callback

    private static let code = Field.optional("code", .text(1...2048), "The authorization code.")
    private static let error = Field.optional("error", .text(1...100), "The reason why there is no code.")
    private static let description = Field.optional(
        "error_description",
        .text,
        "The reason in words, which is not used."
    )
    private static let kakaoState = Field.required("state", .text(1...100), "The login, as Kakao was given it.")

    private static let finishing = Operation(
        "finishLogin",
        .get,
        callbackPath,
        .anyone(
            .limited(
                "A login ends with its first callback that has a code. Codes that yield no login slow down those that follow, by address and in all; their calls have connections of their own, and no more are made at a time."
            )
        ),
        "Receives a browser that returns from Kakao's login. Needs `login.return_urls`.",
        query: [code, error, description, kakaoState],
        unknownFields: .ignored,
        answers: [
            .empty(
                .found,
                "The service's address, with a ticket or an error.",
                headers: [Answer.Header("Location", "The service's address.")]
            )
        ],
        problems: [.unknownLogin, .notConfigured, .tooManyRequests, .databaseUnavailable],
        needs: returnURLs,
        handler: finish
    )

    @Sendable private func finish(_ call: Call) async throws -> Response {
        let (code, error) = (try call[Self.code], try call[Self.error])
        _ = try call[Self.description]
        guard let login = LoginCookie(call.request, id: try call[Self.kakaoState], vault),
            // An address may have been removed from the settings since.
            let address = ReturnAddress(login.returnTo, allowed: settings.returnURLs)
        else {
            throw Problem(
                of: .unknownLogin,
                "This browser has not begun this login, or it took longer than ten minutes. Start the login again."
            )
        }
        let outcome: LoginOutcome
        if let code {
            let request = call.request
            outcome = try await callbacks.outcome(
                of: login.id,
                from: request.clientAddress.network,
                on: request.loop
            ) { try await logIn(with: code, login, requestID: request.id) }
        } else {
            outcome = callbacks.end(login.id, error.flatMap { Self.errors.contains($0) ? .error($0) : nil } ?? .failed)
        }
        return redirect(
            to: address.adding([outcome.parameter] + (login.state.map { [("state", $0)] } ?? [])),
            cookies: [LoginCookie.deletion(login.id)]
        )
    }

    /// Ends a login in the database, and exchanges its code for a ticket of the service, or for an error.
    ///
    /// - Throws: ``Problem`` if the server lacks its public URL, ``PostgresError`` if the login may not have ended.
    private func logIn(with text: String, _ login: LoginCookie, requestID: String) async throws -> LoginOutcome {
        let code = CodeExchange.Code(
            text: text,
            redirectURI: try redirectURI,
            codeVerifier: login.codeVerifier,
            nonce: login.nonce,
            // Without OpenID Connect there is none.
            needsIDToken: false,
            appKey: .rest,
            userID: login.userID
        )
        // Another server has received a callback of it, or this one long ago. Kakao accepts a code only once.
        guard try await results.end(login: login.id) else { return .failed }
        let ticket = Base64URL.encode(RandomKey.bytes(32))
        do {
            _ = try await exchange.logIn(with: code) { results.storing($0, of: ticket) }
            return .ticket(ticket)
        } catch CodeExchange.Failure.wrongAccount {
            return .wrongAccount
        } catch {
            failures.write("Login failed", ["error": "\(error.shownInLog)", "request_id": "\(requestID)"])
            if case CodeExchange.Failure.kakao(let error) = error { callbacks.pause(after: error) }
            return .failed
        }
    }

    private func redirect(to address: String, cookies: [String]) -> Response {
        var response = Response(
            .found,
            headerFields: [.location: address, .cacheControl: "no-store", .referrerPolicy: "no-referrer"]
        )
        for cookie in cookies { response.headerFields.append(HTTPField(name: .setCookie, value: cookie)) }
        return response
    }
}

extension Kind where Value == [String] {
    /// Names of visible ASCII characters, separated by commas or spaces.
    fileprivate static var names: Kind {
        .input(.text(), allowed: "1 to 100 names, separated by commas or spaces") { value throws(InvalidValue) in
            guard let text = value.string, text.utf8.count <= 2048 else { throw InvalidValue() }
            let names = text.split { $0 == "," || $0 == " " }.map(String.init)
            guard (1...100).contains(names.count),
                names.allSatisfy({ $0.utf8.allSatisfy { (0x21...0x7E).contains($0) } })
            else { throw InvalidValue() }
            return names
        }
    }
}

extension HTTPField.Name {
    fileprivate static let referrerPolicy = unvalidated("Referrer-Policy")
}

extension ProblemKind {
    static let unknownLogin = ProblemKind(
        .badRequest,
        "unknown-login",
        "The browser has no cookie of this login, or it has expired."
    )
}

extension Error {
    /// The error without its secrets, for the log.
    var shownInLog: String {
        switch self {
        case let failure as CodeExchange.Failure: failure.description
        case let problem as Problem: problem.detail
        case let undecided as UndecidedKey: undecided.problem.detail
        default: String(reflecting: self)
        }
    }
}
