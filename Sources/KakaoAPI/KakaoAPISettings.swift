/// Where Kakao's REST API is, and as whom to call it.
package struct KakaoAPISettings: Sendable {
    /// Scheme, host and port, with or without a slash at the end; and a path before Kakao's, if a gateway wants one.
    package var apiURL: String
    package var adminKey: AdminKey
    /// Which version of the Push API to speak.
    package var pushVersion: PushVersion

    package init(
        apiURL: String = "https://kapi.kakao.com",
        adminKey: AdminKey,
        pushVersion: PushVersion = .v1
    ) {
        self.apiURL = apiURL
        self.adminKey = adminKey
        self.pushVersion = pushVersion
    }
}
