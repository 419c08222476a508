extension KakaoClient {
    /// Returns the app and the user of an access token, without the user if Kakao has no id of the user yet.
    ///
    /// An app may link its users when they sign up, and not when they log in. Kakao does not name such a user as the token's
    /// before the sign-up. The user's own information has the id then, unless Kakao says that the user is not linked.
    ///
    /// - Parameters:
    ///   - token: The access token.
    ///   - appID: The app whose users are asked for; `nil` for any app.
    package func holder(of token: String, in appID: Int64?) async throws(KakaoError) -> AccessTokenInfo.Answer {
        let info = try await call(AccessTokenInfo(), as: .userToken(token))
        guard info.userID == nil, appID == nil || appID == info.appID else { return info }
        do throws(KakaoError) {
            let user = try await call(RetrieveUser(), as: .userToken(token))
            return AccessTokenInfo.Answer(
                userID: user.userID,
                expiresInSeconds: info.expiresInSeconds,
                appID: info.appID
            )
        } catch {
            guard error.code == .userNotLinked else { throw error }
            return info
        }
    }
}
