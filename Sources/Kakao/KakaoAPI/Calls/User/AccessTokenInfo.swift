import HTTPTypes
import JSON
import Schemas

/// Returns the user and the app of an access token that Kakao Login issued. (Kakao, "Kakao Login: REST API", "Retrieve
/// token information".)
///
/// Error -401 means that the token is invalid or expired, -2 that it is malformed.
package struct AccessTokenInfo: KakaoCall {
    package init() {}

    package static let operation = KakaoOperation<Self>(
        "access_token_info",
        [.get],
        "/v1/user/access_token_info",
        // The check of a token that Kakao's SDKs make now and then.
        aliases: ["/v1/user/check_access_token"],
        .user,
        [.userToken],
        "Returns the user and the app of an access token.",
        parameters: Record(make: Self.init),
        answer: .json(.info, example: Answer(userID: 123_456_789, expiresInSeconds: 7199, appID: 1234)),
        admitsUnlinked: true,
        // A device waits for the result.
        timeout: .seconds(5)
    )

    package struct Answer: Sendable, Hashable {
        /// The user's id. `nil` if the user logged in but is not linked to the app yet: an app may link users manually.
        package let userID: Int64?
        /// The remaining lifetime of the token in seconds, 0 or more.
        package let expiresInSeconds: Int64
        /// The app that the user logged in to.
        package let appID: Int64

        package init(userID: Int64?, expiresInSeconds: Int64, appID: Int64) {
            self.userID = userID
            self.expiresInSeconds = expiresInSeconds
            self.appID = appID
        }

        fileprivate static let record = Record<Answer>(
            .optional("id", \.userID, Kind<Int64>.integer(1...Int64.max), "The user; absent if not linked to the app."),
            .required(
                "expires_in",
                \.expiresInSeconds,
                Kind<Int64>.integer(0...Int64.max),
                "The remaining lifetime in seconds."
            ),
            .required("app_id", \.appID, Kind<Int64>.integer(0...Int64.max), "The app."),
            make: Answer.init
        )
    }
}

extension Kind where Value == AccessTokenInfo.Answer {
    /// The members of today, or the older `appId` and `expiresInMillis` in their place.
    fileprivate static var info: Kind {
        let kind = AccessTokenInfo.Answer.record.kind("AccessTokenInfo")
        return Kind(
            kind.input,
            allowed: kind.allowed,
            read: { value throws(InvalidValue) in
                guard var object = value.object else { throw InvalidValue() }
                if object["app_id"] == nil { object["app_id"] = object["appId"] }
                if object["expires_in"] == nil, let milliseconds = object["expiresInMillis"]?.integer {
                    object["expires_in"] = .integer(milliseconds / 1000)
                }
                return try kind.read(JSONValue.object(object))
            },
            write: kind.write
        )
    }
}
