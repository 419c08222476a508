import JSON
import KakaoAPI
import Templates

/// KakaoStory: the calls, which read and change ``StoryStore``.
struct StoryCalls: Sendable {
    private typealias Caller = KakaoCallServer.Caller

    /// The limit that Kakao documented for an image.
    private static let maximumImageBytes = 10 << 20

    let users: AppUsers
    let stories: StoryStore

    func add(to server: inout KakaoCallServer) {
        server.on(CheckStoryUser.self) { _, caller throws(KakaoRefusal) in
            try users.withUser(of: caller) { _, userID in
                CheckStoryUser.Answer(isStoryUser: stories.user(userID).isStoryUser)
            }
        }
        server.on(RetrieveStoryProfile.self) { call, caller throws(KakaoRefusal) in
            try withStory(caller) { story, user in story.profile(of: user, isSecure: call.secureResource == true) }
        }
        server.on(RetrieveLinkInfo.self) { call, caller throws(KakaoRefusal) in
            try withStory(caller, scope: AppDefinition.storyPublish) { _, _ throws(KakaoRefusal) in
                try Self.linkInfo(call.url)
            }
        }
        addPosts(to: &server)
        server.on(RetrieveStories.self) { call, caller throws(KakaoRefusal) in
            try withStory(caller, scope: AppDefinition.storyRead) { story, _ throws(KakaoRefusal) in
                try story.page(before: call.lastID)
            }
        }
        server.on(RetrieveStory.self) { call, caller throws(KakaoRefusal) in
            try withStory(caller, scope: AppDefinition.storyRead) { story, _ throws(KakaoRefusal) in
                try story.post(call.id).story
            }
        }
        server.on(DeleteStory.self) { call, caller throws(KakaoRefusal) in
            try withStory(caller) { story, _ throws(KakaoRefusal) in try story.delete(call.id) }
        }
    }

    private func addPosts(to server: inout KakaoCallServer) {
        let scope = AppDefinition.storyPublish
        server.on(UploadStoryImages.self) { _, files, caller throws(KakaoRefusal) in
            try withStory(caller, scope: scope) { story, _ throws(KakaoRefusal) in
                guard !files.isEmpty else { throw .badParameter("The Parameter [file] cannot be null.") }
                guard files.count <= UploadStoryImages.maximumImages else { throw .tooManyImages }
                var headers: [ImageHeader] = []
                for file in files { headers.append(try file.imageHeader(maximumBytes: Self.maximumImageBytes)) }
                return try story.upload(headers)
            }
        }
        server.on(PostNote.self) { call, caller throws(KakaoRefusal) in
            try withStory(caller, scope: scope) { story, _ throws(KakaoRefusal) in
                try story.post(.note, call.content, call.options)
            }
        }
        server.on(PostPhoto.self) { call, caller throws(KakaoRefusal) in
            try withStory(caller, scope: scope) { story, _ throws(KakaoRefusal) in
                let images = call.images.compactMap { story.images[$0] }
                guard images.count == call.images.count else {
                    throw .badParameter("failed to parse parameter. name=image_url_list, a path was not uploaded")
                }
                return try story.post(.photo, call.content, media: images.map(\.media), call.options)
            }
        }
        server.on(PostLink.self) { call, caller throws(KakaoRefusal) in
            try withStory(caller, scope: scope) { story, _ throws(KakaoRefusal) in
                guard let url = call.linkInfo["url"]?.string, WebURL(url) != nil else {
                    throw .badParameter("failed to parse parameter. name=link_info, it has no url")
                }
                return try story.post(.link, call.content, linkInfo: call.linkInfo, call.options)
            }
        }
    }

    /// Runs a call for its user.
    ///
    /// - Parameter scope: The scope that the call needs.
    /// - Throws: Error -101 if the user is not linked to the app, -402 if the user has not agreed to the scope, and -601 if
    ///   the user does not use KakaoStory.
    private func withStory<Answer>(
        _ caller: Caller,
        scope: String? = nil,
        _ body: (inout StoryStore.User, AppUsers.User) throws(KakaoRefusal) -> Answer
    ) throws(KakaoRefusal) -> Answer {
        try users.withUser(of: caller) { user, userID throws(KakaoRefusal) in
            if let scope, !user.scopes.contains(scope) { throw .missingScopes([scope], allowed: user.scopes) }
            return try stories.update(userID) { story throws(KakaoRefusal) in
                guard story.isStoryUser else {
                    throw KakaoRefusal(
                        status: 400,
                        code: -601,
                        message: "given account is not connected to any story user."
                    )
                }
                return try body(&story, user)
            }
        }
    }

    /// Returns a description of a web page that follows from its address. The sandbox does not load the page.
    ///
    /// - Throws: Error -604 for an address that Kakao cannot reach: no http or https, a private host, or one of the
    ///   reserved domain `invalid` (RFC 6761 §6.4).
    private static func linkInfo(_ url: String) throws(KakaoRefusal) -> LinkInfo {
        guard let address = WebURL(url), !address.isLocal, !address.host.hasSuffix(".invalid") else {
            throw KakaoRefusal(status: 400, code: -604, message: "failed to scrap the url.")
        }
        return LinkInfo(
            url: url,
            requestedURL: url,
            host: address.host,
            title: "The page \(url)",
            images: ["https://\(address.host)/image.png"],
            description: "A page of \(address.host).",
            section: "",
            type: "website",
            siteName: address.host
        )
    }
}

extension StoryStore.User {
    /// Returns the profile, as far as the user has agreed.
    ///
    /// - Parameter isSecure: Whether the addresses of images are https.
    fileprivate func profile(of user: AppUsers.User, isSecure: Bool) -> RetrieveStoryProfile.Answer {
        func shown<Value>(_ value: Value, with scope: String) -> Value? { user.scopes.contains(scope) ? value : nil }
        func image(_ name: String) -> String? {
            shown("\(isSecure ? "https" : "http")://k.kakaocdn.net/dn/sandbox/\(id)/\(name).jpg", with: "profile_image")
        }
        return RetrieveStoryProfile.Answer(
            nickname: shown("Story user \(id)", with: "profile_nickname"),
            profileImageURL: image("story_640x640"),
            thumbnailURL: image("story_160x160"),
            backgroundImageURL: image("story_background"),
            permalink: shown(permalink, with: AppDefinition.storyPermalink),
            birthday: shown(user.account["birthday"]?.string, with: "birthday") ?? nil,
            birthdayType: shown(user.account["birthday_type"]?.string, with: "birthday") ?? nil
        )
    }
}
