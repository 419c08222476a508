import HTTPTypes
package import JSON
import Schemas

/// Validates that the app may open a channel, as Kakao's SDKs do before they open KakaoTalk. (Names as in Kakao's iOS SDK,
/// `TalkApi.addChannel` and `TalkApi.chatChannel`.)
package struct ValidateChannel: KakaoCall {
    /// An object without documented members. The SDK for iOS takes an empty body for a failure.
    package typealias Answer = JSONObject

    /// What the app opens: `uri` and `channel_public_id`.
    package let properties: JSONObject

    package static let operation = KakaoOperation<Self>(
        "app_validate_sdk",
        [.post],
        "/v1/app/validate/sdk",
        .sharing,
        [.appKey],
        isIdempotent: true,
        "Validates that the app may open a channel in KakaoTalk.",
        parameters: Record(
            .required(
                "quota_properties",
                \.properties,
                .object,
                "`uri` and `channel_public_id`, as Kakao's SDKs send them."
            ),
            make: Self.init
        ),
        answer: .json(.object, example: [:])
    )
}
