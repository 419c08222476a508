internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import KakaoAPI
internal import Logging
internal import Schemas
internal import ServiceKit

/// `POST /v1/user/logout` and `POST /v1/user/unlink`, as in Kakao's API, with their consequences here: the tokens of the
/// account are deleted, and an unlink withdraws the user's devices.
struct UserEndRoutes: RouteCollection {
    static let title = "Logout and unlink, as in Kakao's API"
    static let operations = [loggingOut, unlinking]

    let unlinker: Unlinker
    let kakao: KakaoClient
    let logger: Logger

    private static let targetID = Field.optional("target_id", .userID, "The user, if an operator calls.")
    private static let targetIDType = Field.optional(
        "target_id_type",
        Kind<String>.text(oneOf: ["user_id"]),
        "The kind of `target_id`."
    )

    private static func declaration<Call: KakaoCall>(
        _ id: String,
        _: Call.Type,
        _ summary: String,
        answers: [Answer] = []
    ) -> OperationDeclaration {
        OperationDeclaration(
            id,
            .post,
            Call.operation.path,
            .kakaoUser(.accounts),
            summary,
            body: .fields([targetIDType, targetID]),
            unknownFields: .ignored,
            maximumBodyBytes: RequestSize.small,
            answers: [.json(.ok, shape, "The user.")] + answers,
            problems: [.refusedByKakao, .kakaoUnavailable, .badGateway, .loginRequired]
        )
    }

    /// Kakao's answer.
    private static let shape = Shape<Int64>(
        "KakaoUserID",
        [.member("id", Kind<Int64>.integer(1...Int64.max), "The user.", \.self)]
    )

    /// The user whom a call concerns, with the credential towards Kakao.
    private static func target(of call: Call) throws -> (userID: Int64, credential: KakaoCredential) {
        let target = try call[targetID]
        _ = try call[targetIDType]
        if let user = call.caller.user, let credential = Credential(call.request) {
            if let target { try call.caller.require([target], targetID.name) }
            return (user.id, .userToken(credential.text))
        }
        guard let target else {
            throw Problem.field(targetID.name, "the id of the user, with target_id_type=user_id")
        }
        return (target, .adminKeyForUser(target))
    }

    // MARK: Logout

    private static let loggingOut = Operation(
        declaration("logOutUser", LogOutUser.self, "Logs a user out at Kakao, and deletes the tokens of the account."),
        handler: logOut
    )

    /// Deletes the tokens of the account whatever Kakao responds: the user is to be logged out.
    @Sendable private func logOut(_ call: Call) async throws -> Response {
        let (userID, credential) = try Self.target(of: call)
        return try await call.request.uninterrupted {
            try await unlinker.recordLogout(userID)
            do throws(KakaoError) {
                _ = try await kakao.call(LogOutUser(), as: credential)
            } catch {
                // Nobody is logged in whose token or whose link has ended.
                guard error.disposition == .logIn || error.code == .userNotLinked else {
                    throw Problem(error, about: "the logout", isIdempotent: true)
                }
            }
            return .json(Self.shape.json(userID))
        }
    }

    // MARK: Unlink

    private static let unlinking = Operation(
        declaration(
            "unlinkUser",
            UnlinkUser.self,
            "Unlinks a user at Kakao, deletes the tokens of the account, and withdraws the devices.",
            answers: [.json(.accepted, shape, "Stored here; the call to Kakao is pending.")]
        ),
        handler: unlink
    )

    /// Unlinks a user. A user's own call is made with the user's token, and needs Kakao at once. An operator's is stored, and
    /// carried out later if Kakao is unavailable; as is a user's whose token has ended since it was verified.
    @Sendable private func unlink(_ call: Call) async throws -> Response {
        let (userID, credential) = try Self.target(of: call)
        return try await call.request.uninterrupted {
            guard case .userToken = credential else {
                let isDone = try await unlinker.unlink(userID)
                return .json(Self.shape.json(userID), status: isDone ? .ok : .accepted)
            }
            do throws(KakaoError) {
                _ = try await kakao.call(UnlinkUser(), as: credential)
            } catch {
                switch error.code {
                case .userNotLinked: break
                // The token was verified before. It is dead if an unlink has succeeded whose response was lost, or if the
                // user has logged out since.
                case .invalidCredential:
                    let isDone = try await unlinker.unlink(userID)
                    return .json(Self.shape.json(userID), status: isDone ? .ok : .accepted)
                default: throw Problem(error, about: "the unlink", isIdempotent: true)
                }
            }
            try await unlinker.recordUnlink(userID)
            return .json(Self.shape.json(userID))
        }
    }
}

extension KakaoError {
    /// Kakao's error code, if Kakao responded with one.
    var code: KakaoErrorCode? {
        guard case .refused(_, let code, _) = kind else { return nil }
        return code
    }
}
