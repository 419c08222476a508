package import Endpoints
import HTTPServer
package import KakaoAPI
import Schemas

/// The user whom a call in Kakao's format concerns.
package enum KakaoTarget: Sendable {
    /// The caller, with an access token of Kakao Login.
    case caller(Int64, token: String)
    /// The caller, with an access token of Kakao Login, who is not linked to the app yet.
    case unlinkedCaller(token: String)
    /// A user that an operator names.
    case named(Int64)

    /// The user's id; `nil` for a user who has none yet.
    package var userID: Int64? {
        switch self {
        case .caller(let userID, _), .named(let userID): userID
        case .unlinkedCaller: nil
        }
    }

    /// The user as the audit log names it.
    package var auditSubject: AuditSubject { userID.map { .user($0) } ?? .server }

    /// The credential towards Kakao: the caller's token, or the Admin key for the named user.
    package var credential: KakaoCredential {
        switch self {
        case .caller(_, let token), .unlinkedCaller(let token): .userToken(token)
        case .named(let userID): .adminKeyForUser(userID)
        }
    }

    /// The fields with which an operator names the user.
    package static let fields: [any FieldDeclaration] = [idType, id]

    fileprivate static let id = Field.optional("target_id", .userID, "The user, if an operator calls.")
    fileprivate static let idType = Field.optional(
        "target_id_type",
        Kind<String>.text(oneOf: ["user_id"]),
        "The kind of `target_id`."
    )
}

extension Call {
    /// Returns the user whom a call in Kakao's format concerns. The operation declares ``KakaoTarget/fields``.
    ///
    /// - Throws: ``Problem``: 400 if an operator names no user, 403 if a user's app names another one.
    package func kakaoTarget() throws -> KakaoTarget {
        let target = try self[KakaoTarget.id]
        _ = try self[KakaoTarget.idType]
        if let target { try caller.require([target], KakaoTarget.id.name) }
        if let credential = Credential(request) {
            switch caller {
            case .user(let user): return .caller(user.id, token: credential.text)
            case .unlinkedUser: return .unlinkedCaller(token: credential.text)
            case .anyone, .operator, .app, .kakao: break
            }
        }
        guard let target else {
            throw Problem.field(
                KakaoTarget.id.name,
                Kind.userID.allowed,
                "It names the user, with target_id_type=user_id.",
                isMissing: true
            )
        }
        return .named(target)
    }
}
