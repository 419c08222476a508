import KakaoAPI

/// A device with its push token, as stored here or at Kakao.
struct PushToken: Sendable, Hashable {
    let userID: Int64
    let deviceID: String
    let pushType: PushType
    let pushToken: String
    /// The time of the first registration in Kakao's format, `2014-07-29T06:24:12Z`. Empty if Kakao did not send it.
    let createdAt: String
    /// The time of the last registration, in the format of ``createdAt``.
    let updatedAt: String
}

extension PushToken {
    /// `nil` for an unknown push type, to which nothing could be sent.
    init?(_ token: RetrievePushTokens.Token) {
        guard let pushType = PushType(name: token.pushType) else { return nil }
        self.init(
            userID: token.userID,
            deviceID: token.deviceID,
            pushType: pushType,
            pushToken: token.pushToken,
            createdAt: token.createdAt ?? "",
            updatedAt: token.updatedAt ?? ""
        )
    }
}
