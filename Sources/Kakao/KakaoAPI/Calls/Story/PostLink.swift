import HTTPTypes
package import JSON
import Schemas

/// Posts a story with a link to a web page, which ``RetrieveLinkInfo`` describes. (Kakao, "Kakao Story: iOS", "Posting link
/// story".)
package struct PostLink: KakaoCall {
    package typealias Answer = StoryPostAnswer

    /// The answer of ``RetrieveLinkInfo``, with members that Kakao may have added.
    package let linkInfo: JSONObject
    /// The text, up to 2048 characters.
    package var content: String?
    package var options = StoryPostOptions()

    package static let operation = KakaoOperation<Self>(
        "story_post_link",
        [.post],
        "/v1/api/story/post/link",
        .story,
        [.userToken],
        "Posts a link to a web page as a story of the user.",
        parameters: Record(
            .required(
                "link_info",
                \.linkInfo,
                .object,
                "The object that `/v1/api/story/linkinfo` returned."
            ),
            .storyContent(\.content),
            .members(of: StoryPostOptions.record, \.options),
            make: Self.init
        ),
        answer: StoryPostAnswer.answer
    )
}
