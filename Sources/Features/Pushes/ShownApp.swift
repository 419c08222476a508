import Schemas
import Settings

/// The app at Kakao whose users a push reaches, as it is shown.
struct ShownApp: Sendable {
    let id: Int64?
    let name: String?

    init(_ settings: KakaoSettings) {
        id = settings.appID
        name = settings.appName
    }

    static let shape = Shape<ShownApp>(
        "PushApp",
        [
            .nullable("id", .count, "The setting `kakao.app_id`.", \.id),
            .nullable("name", .text, "The setting `kakao.app_name`.", \.name),
        ]
    )
}
