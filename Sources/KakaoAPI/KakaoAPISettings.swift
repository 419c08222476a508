/// The address of Kakao's REST API and the key for it.
package struct KakaoAPISettings: Sendable {
    /// Scheme, host and port, with or without a trailing slash, and an optional path prefix for a gateway.
    package var apiURL: String
    package var adminKey: AdminKey
    /// The version of the Push API to use.
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
