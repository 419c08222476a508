import Crypto
import Endpoints
import EventLoop
import FoundationEssentials
import HTTPServer
import HTTPTypes
import Identity
import JSON
import KakaoAPI
import Runtime
import Schemas

/// `POST /v1/login/tickets` and `POST /v1/login/code`: how a backend gets the result of a login.
struct TicketRoutes: RouteCollection {
    static let title = "Logins"
    static let operations = [redeeming, exchanging]

    /// The time for which a request waits for another one with the same code.
    private static let wait = Duration.seconds(15)
    private static let pollInterval = Duration.milliseconds(100)

    /// `nil` without a key that encrypts tokens.
    let results: LoginResultStore?
    let exchange: CodeExchange?
    let kakao: KakaoClient

    // MARK: Tickets

    private static let ticket = Field.required("ticket", .text(1...100), "The ticket.")

    private static let redeeming = Operation(
        "redeemTicket",
        .post,
        "/v1/login/tickets",
        .operator(.accounts),
        "Returns the result of a login in a browser, once within a minute.",
        body: .fields([ticket]),
        maximumBodyBytes: RequestSize.small,
        answers: [.json(.ok, LoginResult.shape, "The user who has logged in.")],
        problems: [.unknownTicket, .notConfigured],
        auditing: .handler,
        handler: redeem
    )

    @Sendable private func redeem(_ call: Call) async throws -> Response {
        let ticket = try call[Self.ticket]
        guard let results else { throw Problem.accountsDisabled }
        guard let json = try await results.redeem(ticket: ticket, recording: { call.auditRecord(of: .user($0)) }) else {
            throw Problem(
                of: .unknownTicket,
                "The ticket is invalid, expired, or redeemed already. A ticket can be redeemed once within 60 seconds."
            )
        }
        return .secret(json)
    }

    // MARK: Codes

    private static let code = Field.required("code", .token(1...2048), "The authorization code.")
    private static let redirectURI = Field.required(
        "redirect_uri",
        .token(1...2048),
        "The redirect URI that the code was requested with."
    )
    private static let codeVerifier = Field.optional(
        "code_verifier",
        .codeVerifier,
        "The verifier, if the code was requested with a `code_challenge`. Omit it otherwise."
    )
    private static let nonce = Field.optional("nonce", .text(1...256), "The nonce that the ID token must have.")
    private static let appKey = Field.optional(
        "app_key",
        Kind<AppKeyKind>.choice,
        default: .rest,
        shown: "rest",
        "The app key that the code was requested with."
    )

    private static let exchanging = Operation(
        "exchangeCode",
        .post,
        "/v1/login/code",
        .operator(.accounts),
        "Logs a user in with an authorization code that an app or a front end has obtained.",
        body: .fields([code, redirectURI, codeVerifier, nonce, appKey]),
        maximumBodyBytes: RequestSize.small,
        answers: [.json(.ok, LoginResult.shape, "The user who has logged in.")],
        problems: [
            .refusedByKakao, .codeInUse, .invalidIDToken, .notConfigured, .badGateway, .serverRefused,
            .kakaoUnavailable, .outcomeUnknown, .identityUnavailable,
        ],
        auditing: .handler,
        handler: exchange
    )

    /// Responds with the result of the exchange; for a repetition within a minute with the same result.
    @Sendable private func exchange(_ call: Call) async throws -> Response {
        let code = CodeExchange.Code(
            text: try call[Self.code],
            redirectURI: try call[Self.redirectURI],
            codeVerifier: try call[Self.codeVerifier],
            nonce: try call[Self.nonce],
            needsIDToken: try call[Self.nonce] != nil,
            appKey: try call[Self.appKey],
            userID: nil
        )
        guard let results, let exchange else { throw Problem.accountsDisabled }
        guard let operatorKey = call.caller.key else { preconditionFailure("only operators are admitted") }
        let request = Self.digest(of: code, operatorKey.digest)
        let loop = call.request.loop
        let deadline = MonotonicTime.now + Self.wait
        while true {
            switch try await results.claim(code: code.text, request: request) {
            case .exchanged(let json): return .secret(json)
            case .foreign:
                throw Problem(
                    of: .codeInUse,
                    "This code was sent with another operator key or other parameters. A code can be used once."
                )
            case .pending:
                guard MonotonicTime.now < deadline else {
                    throw Problem(
                        of: .kakaoUnavailable,
                        "Another request is exchanging this code. Try again.",
                        headerFields: [.retryAfter: "1"]
                    )
                }
                try await loop.sleep(for: Self.pollInterval)
            case .new(let claim):
                return .secret(
                    try await call.request.uninterrupted {
                        try await logIn(with: code, request, claim, exchange, results) {
                            call.auditRecord(of: .user($0))
                        }
                    }
                )
            }
        }
    }

    private func logIn(
        with code: CodeExchange.Code,
        _ request: [UInt8],
        _ claim: UUID,
        _ exchange: CodeExchange,
        _ results: LoginResultStore,
        recording record: @escaping @Sendable (Int64) -> AuditRecord?
    ) async throws -> [UInt8] {
        do {
            return try await exchange.logIn(with: code, recording: record) {
                results.storing($0, of: code.text, request: request, claim: claim)
            }
        } catch {
            // Kakao may accept the code later. If this fails too, the claim expires.
            try? await results.release(code: code.text, claim: claim)
            switch error {
            case let failure as CodeExchange.Failure: throw await problem(of: failure, code)
            // The keys cannot be had in time, whoever has had them fetched: the caller has done nothing wrong.
            case let undecided as UndecidedKey: throw Problem.identityUnavailable(retrySeconds: undecided.retrySeconds)
            default: throw error
            }
        }
    }

    /// Returns the digest of an operator key and the parameters that are sent with a code.
    private static func digest(of code: CodeExchange.Code, _ operatorKey: [UInt8]) -> [UInt8] {
        let parameters: [JSONValue] = [
            .string(code.redirectURI), .string(code.codeVerifier ?? ""), .string(code.nonce ?? ""),
            .string(code.appKey.rawValue),
        ]
        return SHA256Digest.of(operatorKey + JSONValue.array(parameters).bytes())
    }

    private func problem(of failure: CodeExchange.Failure, _ code: CodeExchange.Code) async -> Problem {
        switch failure {
        case .appKeyMissing:
            return .appKeyMissing(code.appKey)
        case .invalidIDToken, .wrongAccount:
            return Problem(
                of: .invalidIDToken,
                "The ID token that Kakao has issued for this code is invalid, or does not have this nonce."
            )
        case .kakao(let error):
            if error.oauthError?.code == "KOE303" {
                return Problem.field(Self.redirectURI.name, "the redirect URI that the code was requested with")
            }
            // A frequent mistake: the token of an app's SDK in place of a code.
            if error.disposition == .logIn, await isAccessToken(code.text) {
                return Problem.field(
                    Self.code.name,
                    "an authorization code",
                    "This is an access token: import it with PUT /v1/accounts/{user_id}/tokens."
                )
            }
            guard error.credential == .none else {
                return Problem(of: .badGateway, "Kakao does not accept the access token that it has just issued.")
            }
            return Problem(error, about: "the authorization code", isIdempotent: false)
        }
    }

    private func isAccessToken(_ text: String) async -> Bool {
        guard KakaoAccessTokens.isToken(text) else { return false }
        return (try? await kakao.call(AccessTokenInfo(), as: .userToken(text))) != nil
    }
}

extension Response {
    /// A response that no cache may keep.
    static func secret(_ json: [UInt8]) -> Response {
        var response = Response.json(json)
        response.headerFields[.cacheControl] = "no-store"
        return response
    }
}

extension Kind where Value == String {
    /// The verifier of a code challenge (RFC 7636 §4.1).
    fileprivate static var codeVerifier: Kind {
        .input(
            .text(length: 43...128, pattern: "^[A-Za-z0-9._~-]*$"),
            allowed: "43 to 128 letters, digits, -, ., _ and ~ (RFC 7636)"
        ) { value throws(InvalidValue) in
            guard let text = value.string, (43...128).contains(text.utf8.count), text.utf8.allSatisfy(isUnreserved)
            else { throw InvalidValue() }
            return text
        }
    }

    /// Returns whether an octet is one of the unreserved characters of URLs (RFC 3986 §2.3).
    private static func isUnreserved(_ octet: UInt8) -> Bool {
        switch octet {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            true
        default: false
        }
    }
}
