import HTTPTypes
import Schemas

/// Lists the customer files of a channel. (Kakao, "KakaoTalk Channel: REST API", "Retrieve customer files".)
///
/// Kakao's documentation does not name the members of a file: the id and the name are read, if they are there.
package struct RetrieveCustomerFiles: KakaoCall {
    /// The channel, as in its address.
    package let channelPublicID: String

    package init(channelPublicID: String) {
        self.channelPublicID = channelPublicID
    }

    package static let operation = KakaoOperation<Self>(
        "channel_files",
        [.get],
        "/v1/talkchannel/target_user_file",
        .talk,
        [.restAPIKey, .adminKey],
        "Lists the customer files of a channel.",
        parameters: Record(.channelPublicID(\.channelPublicID), make: Self.init),
        answer: .json(
            Answer.record.kind("KakaoCustomerFiles"),
            example: Answer(files: [File(id: 759, name: "vip")], usedSlots: 1, emptySlots: 29)
        )
    )

    package struct File: Sendable {
        package let id: Int64?
        package let name: String?

        package init(id: Int64?, name: String?) {
            self.id = id
            self.name = name
        }

        fileprivate static let record = Record<File>(
            .optional("file_id", \.id, Kind<Int64>.integer(1...Int64.max), "The file."),
            .optional("file_name", \.name, .text, "Its name."),
            make: File.init
        )
    }

    package struct Answer: Sendable {
        package let files: [File]
        package let usedSlots: Int64?
        /// How many more files the channel may have.
        package let emptySlots: Int64?

        package init(files: [File], usedSlots: Int64?, emptySlots: Int64?) {
            self.files = files
            self.usedSlots = usedSlots
            self.emptySlots = emptySlots
        }

        fileprivate static let record = Record<Answer>(
            .required("results", \.files, File.record.kind("KakaoCustomerFile").array, "The files."),
            .optional("using_slot", \.usedSlots, Kind<Int64>.integer(0...Int64.max), "The number of files."),
            .optional("empty_slot", \.emptySlots, Kind<Int64>.integer(0...Int64.max), "The free slots."),
            make: Answer.init
        )
    }
}
