import HTTPTypes
import Schemas

/// Returns a user's relations to the channels that are connected to the app. (Kakao, "KakaoTalk Channel: REST API", "Check
/// KakaoTalk Channel".)
///
/// Errors -541 and -544 mean that a channel does not exist or is banned, -819 that it is not connected to the app, -501
/// that the user does not use KakaoTalk.
package struct RetrieveChannels: KakaoCall {
    /// The public ids of the channels to return; all of the app if `nil`.
    package var channelIDs: [String]?
    /// `channel_public_id`, the only kind of id.
    package var channelIDType: String?

    package static let operation = KakaoOperation<Self>(
        "talk_channels",
        [.get],
        "/v2/api/talk/channels",
        .talk,
        [.userToken, .adminKeyForUser],
        "Returns the user's relations to the app's KakaoTalk channels.",
        parameters: Record(
            .channelIDs(\.channelIDs),
            .channelIDType(\.channelIDType),
            make: Self.init
        ),
        answer: .json(Answer.kind, example: .example)
    )

    /// Kakao's answer.
    ///
    /// - Parameters:
    ///   - name: What it calls a channel, with which the names of its members begin.
    ///   - schema: The name of the schema of a channel.
    static func answer(_ name: String, _ schema: String) -> KakaoAnswer<Answer> {
        .json(Answer.record(name, schema).kind("\(schema)s"), example: .example)
    }

    /// A channel, and the user's relation to it.
    package struct Channel: Sendable {
        /// The search id: `@sample`.
        package let uuid: String?
        /// The id in the channel's address: `_ZeUTxl`.
        package let publicID: String
        /// `ADDED`, `BLOCKED`, or `NONE` if the user has never added the channel.
        package let relation: String
        /// The time of the last change; `nil` for the relation `NONE`.
        package let updatedAt: String?

        package init(uuid: String?, publicID: String, relation: String, updatedAt: String?) {
            self.uuid = uuid
            self.publicID = publicID
            self.relation = relation
            self.updatedAt = updatedAt
        }

        fileprivate static func record(_ name: String) -> Record<Channel> {
            Record(
                .optional("\(name)_uuid", \.uuid, .text, "The search id, such as `@sample`."),
                .required("\(name)_public_id", \.publicID, .text, "The id in the channel's address."),
                .required("relation", \.relation, .text, "`ADDED`, `BLOCKED`, or `NONE` if the user never added it."),
                .optional("updated_at", \.updatedAt, .text, "The time of the last change."),
                make: Channel.init
            )
        }
    }

    package struct Answer: Sendable {
        package let userID: Int64?
        package let channels: [Channel]?

        package init(userID: Int64?, channels: [Channel]?) {
            self.userID = userID
            self.channels = channels
        }

        static let kind = record("channel", "KakaoChannel").kind("KakaoChannels")

        static let example = Answer(
            userID: 123_456_789,
            channels: [
                Channel(uuid: "@sample", publicID: "_ZeUTxl", relation: "ADDED", updatedAt: "2022-04-11T01:45:28Z")
            ]
        )

        fileprivate static func record(_ name: String, _ schema: String) -> Record<Answer> {
            Record(
                .optional("user_id", \.userID, .kakaoID, "The user."),
                .optional("\(name)s", \.channels, Channel.record(name).kind(schema).array, "The channels."),
                make: Answer.init
            )
        }
    }
}

extension RecordMember where Value == [String]? {
    /// The channels of calls that return relations to channels.
    static func channelIDs(_ get: @escaping @Sendable (Whole) -> [String]?) -> RecordMember {
        .optional(
            "channel_ids",
            get,
            .commaList(count: 100, length: 64),
            "The public ids of the channels, separated by commas; all of the app if it is absent."
        )
    }
}

extension RecordMember where Value == String? {
    /// The kind of ids of these calls.
    static func channelIDType(_ get: @escaping @Sendable (Whole) -> String?) -> RecordMember {
        .optional("channel_id_type", get, .text(oneOf: ["channel_public_id"]), "The kind of the ids.")
    }
}
