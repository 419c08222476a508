import HTTPTypes
import JSON
import Schemas

/// Lists the friends of a user who use the app too, in pages. (Kakao, "KakaoTalk Social: REST API", "Retrieve list of
/// friends".)
///
/// Kakao lists friends who are linked to the app and have agreed to the scope `friends`; before the review of the app, only
/// members of its team. Error -402 means that the user has not agreed to `friends`, -501 that the user does not use
/// KakaoTalk.
package struct RetrieveFriends: KakaoCall {
    /// The criterion by which friends are sorted.
    package enum FriendOrder: String, CaseIterable, Sendable {
        /// Favorites first, then by nickname.
        case favorite
        case nickname
        case age
    }

    /// The maximum number of friends on a page, and Kakao's default.
    package static let maximumLimit: Int64 = 100

    /// The number of friends before the page; 0 if `nil`.
    package let offset: Int64?
    /// The number of friends on a page, 1 to ``maximumLimit``.
    package let limit: Int64?
    /// The direction; `nil` for ``SortOrder/ascending``.
    package let order: SortOrder?
    /// The criterion; `nil` for ``FriendOrder/favorite``.
    package let friendOrder: FriendOrder?
    /// Whether the addresses of images are https.
    package let secureResource: Bool?

    package init(
        offset: Int64? = nil,
        limit: Int64? = nil,
        order: SortOrder? = nil,
        friendOrder: FriendOrder? = nil,
        secureResource: Bool? = nil
    ) {
        self.offset = offset
        self.limit = limit
        self.order = order
        self.friendOrder = friendOrder
        self.secureResource = secureResource
    }

    /// Creates the call for the page at an address in an answer. Only the parameters of its query are used: a call to
    /// another host would give the user's token away.
    ///
    /// - Parameter address: ``Answer/afterURL`` or ``Answer/beforeURL``.
    /// - Returns: `nil` if the address has no offset, without which the pages would begin again, or an invalid parameter.
    package init?(pageAt address: String) {
        guard let start = address.firstIndex(of: "?") else { return nil }
        var values = JSONObject()
        for pair in address[start...].dropFirst().prefix(while: { $0 != "#" }).split(separator: "&") {
            // The values are numbers and words, which need no decoding.
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2 { _ = values.append(String(parts[0]), .string(String(parts[1]))) }
        }
        guard let page = try? Self.operation.parameters.read(values), page.offset != nil else { return nil }
        self = page
    }

    package static let operation = KakaoOperation<Self>(
        "talk_friends",
        [.get],
        "/v1/api/talk/friends",
        aliases: ["/v1/friends"],
        .talk,
        [.userToken],
        "Lists the user's friends who use the app too.",
        parameters: Record(
            .optional("offset", \.offset, Kind<Int64>.integer(0...Int64.max), "The number of friends before the page."),
            .optional(
                "limit",
                \.limit,
                Kind<Int64>.integer(1...maximumLimit),
                "The number of friends on a page; \(maximumLimit) if it is absent."
            ),
            .optional("order", \.order, .choice, "The direction; `asc` if it is absent."),
            .optional("friend_order", \.friendOrder, .choice, "The criterion; `favorite` if it is absent."),
            .optional("secure_resource", \.secureResource, .boolean, "Whether the addresses of images are https."),
            make: Self.init
        ),
        answer: .json(
            Answer.record.kind("KakaoFriends"),
            example: Answer(
                friends: [
                    Friend(
                        userID: 123_456_789,
                        uuid: "abcdefg0001",
                        nickname: "홍길동",
                        thumbnailURL: "https://k.kakaocdn.net/profile_110x110.jpg",
                        isFavorite: true
                    )
                ],
                totalCount: 11,
                favoriteCount: 1,
                beforeURL: nil,
                afterURL: "https://kapi.kakao.com/v1/api/talk/friends?offset=1&limit=1&order=asc&friend_order=favorite"
            )
        ),
        isPaged: true
    )

    /// A friend of the user.
    package struct Friend: Sendable, Hashable {
        /// The friend's user id in this app.
        package let userID: Int64?
        /// The id by which messages name the friend. It is of this app and this person.
        package let uuid: String
        package let nickname: String?
        /// The profile image; empty if there is none.
        package let thumbnailURL: String?
        package let isFavorite: Bool?
        /// Whether the friend accepts messages of the app. Kakao does not document it for all apps.
        package let allowsMessages: Bool?

        package init(
            userID: Int64?,
            uuid: String,
            nickname: String?,
            thumbnailURL: String?,
            isFavorite: Bool?,
            allowsMessages: Bool? = nil
        ) {
            self.userID = userID
            self.uuid = uuid
            self.nickname = nickname
            self.thumbnailURL = thumbnailURL
            self.isFavorite = isFavorite
            self.allowsMessages = allowsMessages
        }

        fileprivate static let record = Record<Friend>(
            .optional("id", \.userID, .kakaoID, "The friend's user id in this app."),
            .required("uuid", \.uuid, .text(1...64), "The id by which messages name the friend."),
            .optional("profile_nickname", \.nickname, .text, "The nickname."),
            .optional("profile_thumbnail_image", \.thumbnailURL, .text, "The profile image; may be empty."),
            .optional("favorite", \.isFavorite, .boolean, "Whether the friend is a favorite of the user."),
            .optional("allowed_msg", \.allowsMessages, .boolean, "Whether the friend accepts messages of the app."),
            make: Friend.init
        )
    }

    package struct Answer: Sendable {
        /// The friends of the page. Kakao leaves the member out if there are none.
        package let friends: [Friend]
        /// The number of friends on all pages.
        package let totalCount: Int64
        package let favoriteCount: Int64?
        /// The address of the previous page; `nil` on the first.
        package let beforeURL: String?
        /// The address of the next page, for ``RetrieveFriends/init(pageAt:)``; `nil` on the last.
        package let afterURL: String?

        package init(
            friends: [Friend],
            totalCount: Int64,
            favoriteCount: Int64?,
            beforeURL: String?,
            afterURL: String?
        ) {
            self.friends = friends
            self.totalCount = totalCount
            self.favoriteCount = favoriteCount
            self.beforeURL = beforeURL
            self.afterURL = afterURL
        }

        fileprivate static let record = Record<Answer>(
            .optional(
                "elements",
                \.friends.unlessEmpty,
                .friends,
                "The friends; absent if there are none."
            ),
            .required("total_count", \.totalCount, .count, "The number of friends on all pages."),
            .optional("favorite_count", \.favoriteCount, .count, "The number of favorites on all pages."),
            .optional("before_url", \.beforeURL, .text, "The address of the previous page."),
            .optional("after_url", \.afterURL, .text, "The address of the next page."),
            make: { friends, totalCount, favoriteCount, beforeURL, afterURL in
                Answer(
                    friends: friends ?? [],
                    totalCount: totalCount,
                    favoriteCount: favoriteCount,
                    beforeURL: beforeURL,
                    afterURL: afterURL
                )
            }
        )
    }
}

extension Kind where Value == [RetrieveFriends.Friend] {
    /// Friends, without those that cannot be read: one of them must not hide the others.
    fileprivate static var friends: Kind {
        let friend = RetrieveFriends.Friend.record.kind("KakaoFriend")
        let array = friend.array
        return Kind(
            array.input,
            allowed: array.allowed,
            read: { value throws(InvalidValue) in
                guard let elements = value.array else { throw InvalidValue() }
                return elements.compactMap { try? friend.read($0) }
            },
            write: array.write
        )
    }
}
