/// The app as it is set up in Kakao's console: its scopes (consent items), its service terms, and the keys of the
/// properties of its users.
enum AppDefinition {
    /// A scope.
    struct Scope: Sendable {
        enum Kind: String, Sendable {
            /// Personal information.
            case privacy = "PRIVACY"
            /// A permission.
            case service = "SERVICE"
        }

        let id: String
        /// The name that Kakao shows to users.
        let displayName: String
        var kind = Kind.privacy
        /// Whether users must agree when they log in. Such a consent is not revocable.
        var isRequired = false
        /// What begins the name of the member `…_needs_agreement` of `kakao_account`; `nil` for a scope of other data.
        var consentMember: String?
        /// The members of `kakao_account` that the scope contains: `email`, `profile.nickname`.
        var accountMembers: [String] = []
    }

    /// Terms of the service (Kakao Sync).
    struct Terms: Sendable {
        let tag: String
        /// Whether users must agree. Such a consent is not revocable.
        let isRequired: Bool
    }

    static let scopes = [
        Scope(
            id: "profile_nickname",
            displayName: "닉네임",
            isRequired: true,
            consentMember: "profile_nickname",
            accountMembers: ["profile.nickname", "profile.is_default_nickname"]
        ),
        Scope(
            id: "profile_image",
            displayName: "프로필 사진",
            consentMember: "profile_image",
            accountMembers: ["profile.thumbnail_image_url", "profile.profile_image_url", "profile.is_default_image"]
        ),
        Scope(
            id: "account_email",
            displayName: "카카오계정(이메일)",
            consentMember: "email",
            accountMembers: ["is_email_valid", "is_email_verified", "email"]
        ),
        account("name", "이름"), account("gender", "성별"), account("age_range", "연령대"),
        account("birthday", "생일", ["birthday", "birthday_type"]),
        account("birthyear", "출생 연도"), account("phone_number", "카카오계정(전화번호)"),
        Scope(id: shippingAddress, displayName: "배송지정보(수령인명, 배송지 주소, 전화번호)"),
        Scope(id: friends, displayName: "카카오 서비스 내 친구목록(프로필사진, 닉네임, 즐겨찾기 포함)", kind: .service),
        Scope(id: talkMessage, displayName: "카카오톡 메시지 전송", kind: .service),
        Scope(id: storyRead, displayName: "카카오스토리 글 목록", kind: .service),
        Scope(id: storyPublish, displayName: "카카오스토리 글 작성", kind: .service),
        Scope(id: storyPermalink, displayName: "카카오스토리 프로필 URL"),
        Scope(id: talkCalendar, displayName: "톡캘린더 및 일정 생성, 조회, 편집/삭제", kind: .service),
        Scope(id: talkCalendarTask, displayName: "톡캘린더 내 할 일 생성, 조회, 편집/삭제", kind: .service),
    ]

    /// The scope that shipping addresses need.
    static let shippingAddress = "shipping_address"
    /// The scope that reading stories needs.
    static let storyRead = "story_read"
    /// The scope that posting stories needs.
    static let storyPublish = "story_publish"
    /// The scope that the address of a user's page in KakaoStory needs.
    static let storyPermalink = "story_permalink"

    /// The scope of the list of friends, on both sides.
    static let friends = "friends"

    /// The scope of messages.
    static let talkMessage = "talk_message"

    /// The scope of calendars and events.
    static let talkCalendar = "talk_calendar"

    /// The scope of tasks.
    static let talkCalendarTask = "talk_calendar_task"

    /// A channel that is connected to the app.
    struct Channel: Sendable {
        let publicID: String
        /// The id by which users find the channel.
        let searchID: String
    }

    static let channels = [
        Channel(publicID: "_ZeUTxl", searchID: "@sample"), Channel(publicID: "_xmXjjG", searchID: "@other"),
    ]

    static let terms = [
        Terms(tag: "service", isRequired: true), Terms(tag: "privacy", isRequired: true),
        Terms(tag: "marketing", isRequired: false), Terms(tag: "location", isRequired: false),
    ]

    /// The time at which the app got its terms.
    static let termsCreatedAt = "2020-01-01T00:00:00Z"

    /// The keys of Kakao's own properties, and of those that the app has added.
    static let propertyKeys: Set<String> = ["nickname", "profile_image", "thumbnail_image", "clothing_size", "age"]

    /// The names of the members of `kakao_account`.
    static let accountMembers = Set(
        scopes.flatMap(\.accountMembers).compactMap { $0.split(separator: ".").first.map(String.init) }
    )

    /// Returns a scope of members of `kakao_account`: of one with the same name, unless others are given.
    private static func account(_ name: String, _ displayName: String, _ members: [String]? = nil) -> Scope {
        Scope(id: name, displayName: displayName, consentMember: name, accountMembers: members ?? [name])
    }
}
