/// The identity of a mobile or web app, with which Kakao's SDKs call KakaoTalk Sharing.
package struct KakaoAppKey: Sendable {
    /// The native app key or the JavaScript key.
    package let key: KakaoKey
    /// The value of the header field `KA`, which describes the SDK and the app.
    package let ka: String

    package init(key: KakaoKey, ka: String) {
        self.key = key
        self.ka = ka
    }
}
