import HTTPTypes
import Schemas

/// Creates a customer file of a channel: a list of its customers, to whom the company writes at Kakao's site. (Kakao, "KakaoTalk Channel:
/// REST API", "Create customer file".)
///
/// Kakao refuses a name that is in use, so that a call whose response was lost can be looked up by it.
package struct CreateCustomerFile: KakaoCall {
    /// The kinds of values of a file's fields.
    package static let fieldKinds = ["string", "number"]
    /// The most fields of a file.
    package static let maximumFields = 30
    /// The most characters of a field's name.
    package static let maximumNameLength = 50

    /// The channel, as in its address.
    package let channelPublicID: String
    /// The name, which no other file of the channel has.
    package let fileName: String
    /// The fields of its users with their kinds, ``fieldKinds``.
    package let schema: [String: String]

    package init(channelPublicID: String, fileName: String, schema: [String: String]) {
        self.channelPublicID = channelPublicID
        self.fileName = fileName
        self.schema = schema
    }

    package static let operation = KakaoOperation<Self>(
        "channel_file_create",
        [.post],
        "/v1/talkchannel/create/target_user_file",
        .talk,
        [.restAPIKey, .adminKey],
        isIdempotent: false,
        "Creates a customer file of a channel.",
        parameters: Record(
            .channelPublicID(\.channelPublicID),
            .required("file_name", \.fileName, .text(1...100), "The name, which no other file of the channel has."),
            .required(
                "schema",
                \.schema,
                .textObject(count: maximumFields, names: 1...maximumNameLength, values: .text(oneOf: fieldKinds)),
                "The fields of its users, each with `string` or `number`."
            ),
            make: Self.init
        ),
        answer: .json(Answer.record.kind("KakaoCustomerFileID"), example: Answer(fileID: 759)),
        sendsJSON: true,
        // It has an endpoint of its own, which finds out what became of a call whose response was lost.
        isRelayed: false
    )

    package struct Answer: Sendable {
        package let fileID: Int64

        package init(fileID: Int64) {
            self.fileID = fileID
        }

        fileprivate static let record = Record<Answer>(
            .required("file_id", \.fileID, Kind<Int64>.integer(1...Int64.max), "The file."),
            make: Answer.init
        )
    }
}

extension RecordMember where Value == String {
    /// The channel of a call about customer files.
    static func channelPublicID(_ get: @escaping @Sendable (Whole) -> String) -> RecordMember {
        .required("channel_public_id", get, .text(1...64), "The channel, as in its address.")
    }
}
