/// What KakaoTalk shows of a message at most: numbers of characters and of elements (Kakao, "Message template").
enum Limits {
    static let text = 200
    static let headerTitle = 200
    static let buttonTitle = 14
    static let profileText = 16
    static let titleImageText = 24
    static let titleImageCategory = 14
    static let item = 6
    static let itemOp = 25
    static let sum = 6
    static let sumOp = 11

    /// The size from which Kakao's SDKs refuse a message, with everything that travels with it.
    static let messageBytes = 10_240
    /// The size from which a message counts as large: Kakao and SDKs may add some members.
    static let largeMessageBytes = 9_000

    /// The size of a query that all servers and proxies accept (RFC 9110 §4.1), less Kakao's own parameters.
    static let callbackBytes = 7_000

    static let contents = 3
    static let items = 5
    static let counts = 3
    static let buttons = 2
    /// The buttons of a message to which KakaoTalk adds one.
    static let buttonsBesideFixed = 1
}
