internal import FoundationEssentials
internal import HTTPServer

/// Kakao's report of a push token that it could not deliver to.
struct TokenFailure: Sendable {
    let userID: Int64
    let pushToken: String
    /// When the delivery failed, by Kakao's clock; the time of receipt if Kakao sends no time. Two reports with the
    /// same token and time are duplicates.
    let date: Date
    let receivedAt: Date
}

extension TokenFailure {
    /// Parses a report (Kakao Push, `return_url`).
    ///
    /// - Throws: ``Problem`` 400.
    init(_ request: Request) throws {
        let parameters = try Parameters(request)
        let receivedAt = Date()
        let milliseconds = try parameters.optionalInteger("date", in: 0...253_402_300_799_999)
        self.init(
            userID: try parameters.userID("userId"),
            pushToken: try parameters.text("pushToken", length: 1...4096),
            date: milliseconds.map { Date(timeIntervalSince1970: Double($0) / 1000) } ?? receivedAt,
            receivedAt: receivedAt
        )
    }
}
