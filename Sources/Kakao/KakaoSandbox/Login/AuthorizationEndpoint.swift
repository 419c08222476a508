import HTTPServer
import HTTPTypes
import JSON
import Net
import Schemas

/// `GET /oauth/authorize`: a login without a page (RFC 6749 §3.1; OpenID Connect Core §3.1.2).
///
/// The user is the one of `login_hint`, if that is a user id, otherwise ``KakaoSandboxSettings/testUserID``. The user
/// consents to everything at once.
struct AuthorizationEndpoint: Sendable {
    let settings: KakaoSandboxSettings
    let users: AppUsers
    let tokens: TokenStore

    /// An error that the app learns from the redirection.
    private struct Rejection: Error {
        let error: String
        let description: String
    }

    func add(to server: inout KakaoCallServer) {
        let users = { @Sendable (request: Request) in userID(in: Parameters(request)).map { [$0] } ?? [] }
        server.on("/oauth/authorize", users: users) { respond(to: $0) }
    }

    private func respond(to request: Request) -> Response {
        let parameters = Parameters(request)
        guard let clientID = parameters["client_id"], settings.appKeys.contains(clientID) else {
            return Self.page("KOE101", "The client_id is not a key of the app.")
        }
        guard let redirectURI = parameters["redirect_uri"], isRegistered(redirectURI, for: clientID) else {
            return Self.page("KOE006", "The redirect_uri is not registered for the app.")
        }
        guard parameters["response_type"] == "code" else {
            return Self.page("KOE201", "The response_type must be code.")
        }
        let state = parameters["state"]
        do throws(Rejection) {
            let code = try authorize(parameters, clientID: clientID, redirectURI: redirectURI)
            return Self.redirect(to: redirectURI, [("code", code), ("state", state)])
        } catch {
            let fields = [("error", error.error), ("error_description", error.description), ("state", state)]
            return Self.redirect(to: redirectURI, fields)
        }
    }

    /// Returns a code.
    private func authorize(
        _ parameters: Parameters,
        clientID: String,
        redirectURI: String
    ) throws(Rejection) -> String {
        let challenge = parameters["code_challenge"]
        if let challenge {
            guard parameters["code_challenge_method"] == "S256", challenge.utf8.count == 43 else {
                throw Rejection(error: "invalid_request", description: "code_challenge must be of the method S256.")
            }
        }
        let prompts = Set(parameters.words("prompt"))
        guard prompts.isSubset(of: ["login", "none", "create", "select_account"]),
            prompts.count < 2 || !prompts.contains("none")
        else {
            throw Rejection(error: "invalid_request", description: "prompt is invalid.")
        }
        let scopes = parameters.words("scope")
        guard scopes.count <= 50, scopes.allSatisfy({ $0.utf8.count <= 64 }) else {
            throw Rejection(error: "invalid_scope", description: "scope is invalid.")
        }
        guard let userID = userID(in: parameters) else {
            throw Rejection(error: "login_required", description: "there is no user to log in.")
        }
        if let error = tokens.consumeNextError(of: userID) {
            throw Rejection(error: error, description: "User denied access")
        }
        if prompts.contains("none") { try requireConsent(of: userID, to: scopes) }
        let login = TokenStore.Login(
            userID: userID,
            appID: Int64(settings.appID),
            clientID: clientID,
            scopes: users.logIn(userID, consentingTo: scopes),
            accessTokenSeconds: settings.accessTokenSeconds,
            refreshTokenSeconds: settings.refreshTokenSeconds
        )
        let authorization = TokenStore.Authorization(
            login: login,
            redirectURI: redirectURI,
            challenge: challenge,
            nonce: parameters["nonce"]
        )
        guard let code = tokens.issueCode(for: authorization) else {
            throw Rejection(error: "server_error", description: "too many codes are stored.")
        }
        return code
    }

    /// Checks that a user need not be shown a page.
    private func requireConsent(of userID: Int64, to scopes: [String]) throws(Rejection) {
        let user = users.user(userID)
        guard user.isLinked, tokens.hasLoggedIn(userID) else {
            throw Rejection(error: "login_required", description: "user authentication is required.")
        }
        guard Set(scopes).isSubset(of: user.scopes) else {
            throw Rejection(error: "consent_required", description: "user consent is required.")
        }
    }

    private func userID(in parameters: Parameters) -> Int64? {
        parameters["login_hint"].flatMap { UserID.read(.string($0)) } ?? settings.testUserID
    }

    /// Returns whether codes for an app key may be sent to an address. That of Kakao's native SDKs needs no registration.
    private func isRegistered(_ uri: String, for clientID: String) -> Bool {
        if clientID == settings.nativeAppKey, uri == "kakao\(clientID)://oauth" { return true }
        guard uri.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "#") }) else { return false }
        guard settings.redirectURIs.isEmpty else { return settings.redirectURIs.contains(uri) }
        return uri.hasPrefix("https://") || uri.hasPrefix("http://")
    }

    // MARK: Responses

    private static func redirect(to uri: String, _ fields: [(name: String, value: String?)]) -> Response {
        var form = FormBody()
        for (name, value) in fields {
            if let value { form.append(name, value) }
        }
        let query = String(decoding: form.bytes, as: UTF8.self)
        return Response(.found, headerFields: [.location: uri + (uri.contains("?") ? "&" : "?") + query])
    }

    private static func page(_ code: String, _ text: String) -> Response {
        let page = "<html><body><h1>\(code)</h1><p>\(text)</p></body></html>\n"
        return Response(.badRequest, contentType: "text/html;charset=UTF-8", body: Array(page.utf8))
    }

    /// The parameters of the query. The first of several with the same name counts.
    private struct Parameters {
        private let values: [String: String]

        init(_ request: Request) {
            let items = (try? request.queryItems()) ?? []
            values = Dictionary(items.map { ($0.name, $0.value) }) { first, _ in first }
        }

        /// Returns a value, or `nil` if it is missing or empty.
        subscript(name: String) -> String? {
            values[name].flatMap { $0.isEmpty ? nil : $0 }
        }

        /// Returns the words of a value, separated by commas or spaces.
        func words(_ name: String) -> [String] {
            (self[name] ?? "").split { $0 == "," || $0 == " " }.map(String.init)
        }
    }
}
