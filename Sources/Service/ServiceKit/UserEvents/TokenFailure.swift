package import FoundationEssentials

/// Kakao's report of a push token that it could not deliver to.
package struct TokenFailure: Sendable {
    package let userID: Int64
    package let pushToken: String
    /// When the delivery failed, by Kakao's clock; the time of receipt if Kakao sends no time. Two reports with the
    /// same token and time are duplicates.
    package let date: Date
    package let receivedAt: Date

    package init(userID: Int64, pushToken: String, date: Date, receivedAt: Date) {
        self.userID = userID
        self.pushToken = pushToken
        self.date = date
        self.receivedAt = receivedAt
    }
}
