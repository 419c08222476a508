import HTTPTypes
import JSON
import Schemas

/// Returns the relations of up to 200 users to the channels that are connected to the app. (Kakao, "KakaoTalk Channel: REST API",
/// "Check KakaoTalk Channels of several users".)
///
/// Kakao's documentation does not say whether a user who has not agreed is left out or has no `channels`: both are read.
package struct RetrieveChannelsOfUsers: KakaoCall {
    package typealias Answer = [RetrieveChannels.Answer]

    /// 1 to 200 users.
    package let targetIDs: [Int64]
    /// `user_id`, the only kind of id.
    package var targetIDType = "user_id"
    /// The public ids of the channels to return; all of the app if `nil`.
    package var channelIDs: [String]?
    /// `channel_public_id`, the only kind of id.
    package var channelIDType: String?

    package static let operation = KakaoOperation<Self>(
        "talk_channels_multi",
        [.get],
        "/v2/api/talk/channels/multi",
        .talk,
        [.adminKey],
        "Returns the relations of several users to the app's KakaoTalk channels.",
        parameters: Record(
            .required(
                "target_ids",
                \.targetIDs,
                .userIDList(count: 1...200),
                "The users, up to 200: separated by commas, or as a JSON array."
            ),
            .required("target_id_type", \.targetIDType, .text(oneOf: ["user_id"]), "The kind of the ids."),
            .channelIDs(\.channelIDs),
            .channelIDType(\.channelIDType),
            make: Self.init
        ),
        answer: .json(RetrieveChannels.Answer.kind.array, example: [.example])
    )
}

extension Kind where Value == [Int64] {
    /// Ids of users, as a JSON array or separated by commas, as Kakao gets them.
    fileprivate static func userIDList(count: ClosedRange<Int>) -> Kind {
        let array = Kind<Int64>.kakaoID.array(count: count)
        return Kind(
            .oneOf([array.input, .text(pattern: "^[0-9]{1,19}(,[0-9]{1,19}){0,\(count.upperBound - 1)}$")]),
            output: array.output,
            allowed: "\(count.lowerBound) to \(count.upperBound) user ids, separated by commas or in a JSON array",
            read: { value throws(InvalidValue) in
                guard let text = value.string, text.utf8.first != UInt8(ascii: "[") else {
                    return try array.read(value)
                }
                let texts = text.utf8.split(
                    separator: UInt8(ascii: ","),
                    maxSplits: count.upperBound,
                    omittingEmptySubsequences: false
                )
                return try array.read(.array(texts.map { .string(String(Substring($0))) }))
            },
            write: array.write,
            text: { $0.map(String.init).joined(separator: ",") },
            isCommaList: true
        )
    }
}
