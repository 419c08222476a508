internal import EventLoop
internal import HTTPServer
internal import KakaoAPI

/// The kinds of bearer token that a user may call with, as the settings switch them on: shared by all loops.
final class UserCredentials: Sendable {
    private let accessTokens: KakaoAccessTokens?

    init(_ settings: Settings) {
        accessTokens =
            settings.identity.acceptsKakaoAccessTokens ? settings.kakao.appID.map(KakaoAccessTokens.init) : nil
    }

    /// The user whose token it is; `nil` if it is of no kind that is accepted, or not in force.
    ///
    /// - Parameters:
    ///   - kakao: Of `loop`.
    ///   - loop: The calling one.
    /// - Throws: ``Problem`` 503 when it cannot be found out at the moment.
    func user(of token: String, _ kakao: KakaoUserAPI, on loop: EventLoop) async throws -> Int64? {
        try await accessTokens?.user(of: token, kakao, on: loop)
    }
}
