/// All calls of Kakao's API that this package makes, relays and simulates.
package enum KakaoCalls {
    package static let all: [any KakaoCall.Type] = [
        RegisterPushToken.self, DeregisterPushToken.self, RetrievePushTokens.self, SendPush.self,
        AccessTokenInfo.self,
        TalkProfile.self,
        ValidateDefaultTemplate.self, ValidateCustomTemplate.self, ValidateScrapTemplate.self, UploadImage.self,
        ScrapeImage.self, DeleteImage.self,
    ]
}
