internal import FoundationEssentials
internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// What Kakao has told of a user.
struct KakaoEvent: Sendable {
    /// The type of an unlink notice.
    static let unlinkType = "unlink"

    /// Ours; sorts by the time of receipt.
    let id: UUID
    /// What it is told from all others by, at most 300 bytes: the same one never counts twice.
    let key: String
    /// ``unlinkType``, or the address that names the kind of an account event.
    let type: String
    /// Whom it concerns; `nil` when it does not say.
    let userID: Int64?
    /// Why, in Kakao's word: `ACCOUNT_DELETE`, `UNLINK_FROM_APPS` and others; more may come.
    let referrerType: String?
    /// A JSON object of whatever else came.
    let payload: [UInt8]
    let receivedAt: Date

    /// What follows from it for its user.
    enum Effect: Sendable {
        /// Nothing here.
        case none
        /// Tokens of the user were revoked: what is remembered of them counts no more.
        case tokensRevoked
        /// The user has left the app: no device is to get a push of it, and no token counts any more.
        case userGone
    }

    /// What follows from an event of this type. By the exact type: to take one for another would withdraw the devices of somebody who has just
    /// come.
    var effect: Effect {
        switch type {
        case Self.unlinkType, Self.oauth + "user-unlinked", Self.risc + "account-purged",
            Self.risc + "account-disabled":
            .userGone
        case Self.oauth + "tokens-revoked", Self.oauth + "token-revoked", Self.risc + "sessions-revoked":
            .tokensRevoked
        default:
            .none
        }
    }

    private static let oauth = "https://schemas.openid.net/secevent/oauth/event-type/"
    private static let risc = "https://schemas.openid.net/secevent/risc/event-type/"
}

extension KakaoEvent {
    /// Reads an unlink notice (Kakao Login, "Unlink webhook").
    ///
    /// - Throws: ``Problem``: 400 without app or user, 403 when it is of another app than `appID`.
    init(unlink request: Request, appID: String) throws {
        let parameters = try Parameters(request)
        guard parameters.has("app_id") else { throw Problem.field("app_id", "the number of the app") }
        guard parameters.anyText("app_id") == appID else {
            throw Problem(.forbidden, kind: "other-app", "The notice is of another app than kakao.app_id.")
        }
        var payload = JSONObject()
        for name in parameters.names where !Self.ownNames.contains(name) {
            payload[name.withoutNUL] = .string((parameters.anyText(name) ?? "").withoutNUL)
        }
        let id = UUID.v7()
        self.init(
            id: id,
            // Without a name, nobody can tell a repetition from a second unlink.
            key: try request.kakaoResourceID().map { "\(Self.unlinkType) \($0)" } ?? id.lowercased,
            type: Self.unlinkType,
            userID: try parameters.userID("user_id"),
            // Kakao calls only once: a notice is not refused for a word.
            referrerType: parameters.anyText("referrer_type")?.withoutNUL,
            payload: JSONValue.object(payload).bytes(),
            receivedAt: Date()
        )
    }

    private static let ownNames: Set<String> = ["app_id", "user_id", "referrer_type"]
}
