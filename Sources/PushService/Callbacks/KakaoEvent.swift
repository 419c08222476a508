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
    /// What Kakao tells this notice from others of its type by, if it gave anything: the same one never counts twice.
    let kakaoID: String?
    let type: String
    let userID: Int64?
    /// Why, in Kakao's word: `ACCOUNT_DELETE`, `UNLINK_FROM_APPS` and others; more may come.
    let referrerType: String?
    /// A JSON object of whatever else came.
    let payload: [UInt8]
    let receivedAt: Date
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
        self.init(
            id: .v7(),
            kakaoID: try request.kakaoResourceID(),
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
