import Crypto
import JSON
import KakaoAPI

/// `POST /oauth/token`: exchanges codes for tokens, and refreshes access tokens (RFC 6749 §3.2).
struct TokenEndpoint: Sendable {
    let settings: KakaoSandboxSettings
    let users: AppUsers
    let tokens: TokenStore
    let loginControl: LoginControl

    func add(to server: inout KakaoCallServer) {
        server.on(RequestToken.self, refusal: refusal, exchange: { call, _ in exchange(call) })
    }

    private func exchange(_ call: RequestToken) -> CallExchange<RequestToken.Answer> {
        let userID = tokens.recordArrival(of: call)
        return CallExchange(
            users: userID.map { [$0] } ?? [],
            execute: {
                do {
                    let (issued, nonce) = try issue(call, to: userID)
                    let isRotation = call.grantType == .refreshToken && issued.refreshToken != nil
                    // Kakao lists the scopes after a login only.
                    let scopes = call.grantType == .authorizationCode ? issued.login.scopes : nil
                    let answer = try await loginControl.answer(issued, scopes: scopes, nonce: nonce)
                    return (answer, isRotation ? .rotated : nil)
                } catch let refusal as KakaoRefusal {
                    tokens.recordRefusal(refusal.oauthError?.code ?? "", of: userID)
                    throw refusal
                }
            },
            onCompletion: { event, isDelivered in
                tokens.recordEnd(of: call, userID: userID, isRotated: event == .rotated, isDelivered: isDelivered)
            }
        )
    }

    private func issue(
        _ call: RequestToken,
        to userID: Int64?
    ) throws(KakaoRefusal) -> (tokens: TokenStore.Tokens, nonce: String?) {
        if let refusal = refusal(clientID: call.clientID, secret: call.clientSecret?.revealed) { throw refusal }
        // The tokens of a user who has unlinked the app are dead.
        if let userID, !users.user(userID).isLinked { tokens.revoke(userID: userID) }
        switch call.grantType {
        case .authorizationCode:
            return try tokens.redeem(
                call.code?.revealed ?? "",
                clientID: call.clientID,
                redirectURI: call.redirectURI,
                verifier: call.codeVerifier?.revealed
            )
        case .refreshToken:
            guard let token = call.refreshToken?.revealed, !token.isEmpty else {
                throw .oauth("invalid_grant", "KOE319", "refresh_token is required.")
            }
            return (try tokens.refresh(token, clientID: call.clientID), nil)
        }
    }

    // MARK: The client

    /// Returns the error of a request without a valid kind of grant or without an app key.
    private func refusal(_ parameters: JSONObject) -> KakaoRefusal {
        let refusal =
            refusal(
                clientID: parameters["client_id"]?.string ?? "",
                secret: parameters["client_secret"]?.string
            )
            ?? .oauth("unsupported_grant_type", "KOE310", "grant_type must be authorization_code or refresh_token.")
        tokens.recordRefusal(refusal.oauthError?.code ?? "", of: nil)
        return refusal
    }

    /// Returns the error for a client id that is not one of the app's keys, or for a wrong client secret; `nil` if both are
    /// valid.
    private func refusal(clientID: String, secret: String?) -> KakaoRefusal? {
        guard settings.appKeys.contains(clientID) else {
            return .oauth(status: 401, "invalid_client", "KOE101", "Not exist client_id \(clientID)")
        }
        // Only the REST API key has a secret.
        guard clientID == settings.restAPIKey, let expected = settings.clientSecret, secret != expected else {
            return nil
        }
        return .oauth(status: 401, "invalid_client", "KOE010", "Bad client credentials")
    }
}
