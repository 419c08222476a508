import Endpoints
import FoundationEssentials
import Schemas
import ServiceKit

extension TokenFailure {
    /// The fields of a report (Kakao Push, `return_url`).
    static let fields: [any FieldDeclaration] = [userIDField, pushTokenField, dateField]

    private static let userIDField = Field.required("userId", .userID, "The user.")
    private static let pushTokenField = Field.required("pushToken", .text(1...4096), "The token.")
    private static let dateField = Field.optional(
        "date",
        Kind<Int64>.integer(0...253_402_300_799_999),
        "When the delivery failed, in milliseconds since 1970."
    )

    /// Reads a report; `nil` if it names no user or no token.
    init?(_ reader: inout KakaoCallReader) {
        let receivedAt = Date()
        let (userID, pushToken) = (reader.value(Self.userIDField), reader.value(Self.pushTokenField))
        // A date that cannot be read is no reason to ignore the failure.
        let milliseconds = reader.value(Self.dateField)
        guard let userID, let pushToken else { return nil }
        self.init(
            userID: userID,
            pushToken: pushToken,
            date: milliseconds.map { Date(timeIntervalSince1970: Double($0) / 1000) } ?? receivedAt,
            receivedAt: receivedAt
        )
    }
}
