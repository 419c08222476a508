import JSON
package import Schemas

/// The parameters that all calls have which post a story.
package struct StoryPostOptions: Sendable, Equatable {
    /// The audience of a story.
    package enum Permission: String, CaseIterable, Sendable {
        case everyone = "A"
        case friends = "F"
        case onlyMe = "M"

        /// The word for the audience in a story: ``Story/permission``.
        package var inStory: String {
            switch self {
            case .everyone: "PUBLIC"
            case .friends: "FRIEND"
            case .onlyMe: "ONLY_ME"
            }
        }
    }

    /// The audience; everyone if `nil`.
    package let permission: Permission?
    /// Whether friends may share a story whose audience is friends.
    package let isSharingEnabled: Bool?
    /// The parameters with which the button "View on app" opens the app on Android, as `name=value` pairs separated by `&`.
    package let androidExecutionParams: String?
    /// The same on iOS.
    package let iosExecutionParams: String?
    /// The parameters of the address in the market that the button opens on Android if the app is not installed.
    package let androidMarketParams: String?
    /// The same on iOS.
    package let iosMarketParams: String?

    package init(
        permission: Permission? = nil,
        isSharingEnabled: Bool? = nil,
        androidExecutionParams: String? = nil,
        iosExecutionParams: String? = nil,
        androidMarketParams: String? = nil,
        iosMarketParams: String? = nil
    ) {
        self.permission = permission
        self.isSharingEnabled = isSharingEnabled
        self.androidExecutionParams = androidExecutionParams
        self.iosExecutionParams = iosExecutionParams
        self.androidMarketParams = androidMarketParams
        self.iosMarketParams = iosMarketParams
    }

    package static let record = Record<StoryPostOptions>(
        .optional(
            "permission",
            \.permission,
            .choice,
            "The audience: `A` for everyone, `F` for friends, `M` for the user only; `A` if absent."
        ),
        .optional(
            "enable_share",
            \.isSharingEnabled,
            .boolean,
            "Whether friends may share the story, if `permission` is `F`."
        ),
        .optional(
            "android_exec_param",
            \.androidExecutionParams,
            appParams,
            "Parameters of the URL that opens the app on Android: `a=1&b=2`."
        ),
        .optional(
            "ios_exec_param",
            \.iosExecutionParams,
            appParams,
            "Parameters of the URL that opens the app on iOS: `a=1&b=2`."
        ),
        .optional(
            "android_market_param",
            \.androidMarketParams,
            appParams,
            "Parameters of the market's address on Android, if the app is not installed: `a=1&b=2`."
        ),
        .optional(
            "ios_market_param",
            \.iosMarketParams,
            appParams,
            "Parameters of the App Store's address, if the app is not installed: `a=1&b=2`."
        ),
        make: StoryPostOptions.init
    )

    private static let appParams = Kind<String>.text(0...2048)
}

/// The answer to a call that posts a story.
package struct StoryPostAnswer: Sendable {
    /// The id of the story. Kakao may accept a story without returning its id.
    package let id: String?

    package init(id: String?) {
        self.id = id
    }

    static let answer = KakaoAnswer.json(
        Record<StoryPostAnswer>(
            .optional("id", \.id, .text, "The id of the story. Kakao may accept a story without returning its id."),
            make: StoryPostAnswer.init
        )
        .kind("StoryPostAnswer"),
        example: StoryPostAnswer(id: "_2Kq9L.FqUKiQ1vUw0")
    )
}

extension Kind where Value == String {
    /// The text of a story, which may have several lines.
    static func storyContent(_ length: ClosedRange<Int>) -> Kind {
        Kind(
            .text(length: length),
            allowed: "a text of \(length.lowerBound) to \(length.upperBound) characters",
            read: { value throws(InvalidValue) in
                guard let text = value.string, length.contains(text.unicodeScalars.count) else { throw InvalidValue() }
                return text
            },
            write: { $1.value($0) },
            text: \.self
        )
    }
}

extension RecordMember where Value == String? {
    /// The text of a story that consists of more than a text.
    static func storyContent(_ get: @escaping @Sendable (Whole) -> String?) -> RecordMember {
        .optional("content", get, .storyContent(0...Story.maximumContent), "The text, up to 2048 characters.")
    }
}
