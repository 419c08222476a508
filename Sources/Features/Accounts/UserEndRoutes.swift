import Endpoints
import HTTPServer
import HTTPTypes
import Identity
import KakaoAPI
import Runtime
import Schemas

/// `POST /v1/user/logout` and `POST /v1/user/unlink`, as in Kakao's API, with their consequences here: the tokens of the
/// account are deleted, and an unlink withdraws the user's devices.
struct UserEndRoutes: RouteCollection {
    static let title = "Logout and unlink, as in Kakao's API"
    static let operations = [loggingOut, unlinking]

    let unlinker: Unlinker
    let kakao: KakaoClient

    private static func declaration<Call: KakaoCall>(
        _ id: String,
        _: Call.Type,
        _ summary: String,
        headers: [Answer.Header] = []
    ) -> OperationDeclaration where Call.Answer == UserIDAnswer {
        OperationDeclaration(
            id,
            .post,
            Call.operation.path,
            .kakaoUser(.accounts, admitsUnlinked: Call.operation.admitsUnlinked),
            summary,
            body: .fields(KakaoTarget.fields),
            unknownFields: .ignored,
            maximumBodyBytes: RequestSize.small,
            answers: [.json(.ok, schema, "The user.", headers: headers)],
            problems: [.refusedByKakao, .kakaoUnavailable, .badGateway, .serverRefused, .loginRequired],
            auditing: .kept { try $0.kakaoTarget().auditSubject }
        )
    }

    /// The schema of Kakao's answer.
    private static let schema = UnlinkUser.operation.answer.schema ?? .object

    /// Returns the response with Kakao's answer.
    private static func response(_ userID: Int64) -> Response {
        .json(UnlinkUser.operation.answer.encode(UserIDAnswer(userID: userID)))
    }

    // MARK: Logout

    private static let loggingOut = Operation(
        declaration("logOutUser", LogOutUser.self, "Logs a user out at Kakao, and deletes the tokens of the account."),
        handler: logOut
    )

    /// Deletes the tokens of the account whatever Kakao responds: the user is to be logged out.
    @Sendable private func logOut(_ call: Call) async throws -> Response {
        let target = try call.kakaoTarget()
        return try await call.request.uninterrupted {
            guard let userID = target.userID else {
                let userID = try await end(LogOutUser(), as: target.credential, "the logout")
                try await unlinker.recordLogout(userID)
                return Self.response(userID)
            }
            try await unlinker.recordLogout(userID)
            do throws(KakaoError) {
                _ = try await kakao.call(LogOutUser(), as: target.credential)
            } catch {
                // A user whose token or whose link has ended is logged out.
                guard error.disposition == .logIn || error.code == .userNotLinked else {
                    throw Problem(error, about: "the logout", isIdempotent: true)
                }
            }
            return Self.response(userID)
        }
    }

    /// Makes the call of a user who is not linked to the app yet. Kakao's answer may be the first to name the user.
    private func end<Call: KakaoCall>(
        _ call: Call,
        as credential: KakaoCredential,
        _ words: String
    ) async throws -> Int64 where Call.Answer == UserIDAnswer {
        do throws(KakaoError) {
            return try await kakao.call(call, as: credential).userID
        } catch {
            throw Problem(error, about: words, isIdempotent: true, keepsStatus: true)
        }
    }

    // MARK: Unlink

    private static let unlinking = Operation(
        declaration(
            "unlinkUser",
            UnlinkUser.self,
            "Unlinks a user at Kakao, deletes the tokens of the account, and withdraws the devices.",
            headers: [.state]
        ),
        handler: unlink
    )

    /// Unlinks a user. A user's own call is made with the user's token, and needs Kakao at once. An operator's is stored, and
    /// carried out later if Kakao is unavailable; as is a user's whose token has ended since it was verified.
    @Sendable private func unlink(_ call: Call) async throws -> Response {
        let target = try call.kakaoTarget()
        return try await call.request.uninterrupted {
            guard let userID = target.userID else {
                let userID = try await end(UnlinkUser(), as: target.credential, "the unlink")
                try await unlinker.recordUnlink(userID)
                return Self.response(userID)
            }
            if case .caller = target, try await unlinkCaller(userID, target.credential) {
                return Self.response(userID)
            }
            let isDone = try await unlinker.unlink(userID)
            let response = Self.response(userID)
            return isDone ? response : response.withPendingState()
        }
    }

    /// Unlinks a user with the user's own token. Returns `false` if the token has ended: an unlink may have succeeded whose
    /// response was lost, or the user may have logged out since the token was verified.
    private func unlinkCaller(_ userID: Int64, _ credential: KakaoCredential) async throws -> Bool {
        do throws(KakaoError) {
            _ = try await kakao.call(UnlinkUser(), as: credential)
        } catch {
            switch error.code {
            case .userNotLinked: break
            case .invalidCredential: return false
            default: throw Problem(error, about: "the unlink", isIdempotent: true)
            }
        }
        try await unlinker.recordUnlink(userID)
        return true
    }
}
