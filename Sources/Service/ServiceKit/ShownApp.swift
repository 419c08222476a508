package import Schemas
package import Settings

/// The app at Kakao whose users are reached, as it is shown.
package struct ShownApp: Sendable {
    let id: Int64?
    let name: String?

    package init(_ settings: KakaoSettings) {
        id = settings.appID
        name = settings.appName
    }

    package static let shape = Shape<ShownApp>(
        "App",
        [
            .nullable("id", .count, "The setting `kakao.app_id`.", \.id),
            .nullable("name", .text, "The setting `kakao.app_name`.", \.name),
        ]
    )
}
