import JSON
import KakaoAPI
import Templates

/// KakaoStory: the calls, which read and change ``StoryStore``.
struct StoryCalls: Sendable {
    /// The limit that Kakao documented for an image.
    private static let maximumImageBytes = 10 << 20

    let users: AppUsers
    let stories: StoryStore

    func add(to server: inout KakaoCallServer) {
        server.on(CheckStoryUser.self, for: users) { _, user, _ in stories.user(user.id).isStoryUser }
        server.on(RetrieveStoryProfile.self, for: users) { call, user, _ throws(KakaoRefusal) in
            try withStory(of: user) { story in story.profile(of: user, isSecure: call.secureResource == true) }
        }
        add(RetrieveLinkInfo.self, needing: AppDefinition.storyPublish, to: &server) { call, _ throws(KakaoRefusal) in
            try Self.linkInfo(call.url)
        }
        addPosts(to: &server)
        add(RetrieveStories.self, needing: AppDefinition.storyRead, to: &server) { call, story throws(KakaoRefusal) in
            try story.page(before: call.lastID)
        }
        add(RetrieveStory.self, needing: AppDefinition.storyRead, to: &server) { call, story throws(KakaoRefusal) in
            try story.post(call.id).story
        }
        add(DeleteStory.self, to: &server) { call, story throws(KakaoRefusal) in try story.delete(call.id) }
    }

    private func addPosts(to server: inout KakaoCallServer) {
        let scope = AppDefinition.storyPublish
        server.on(UploadStoryImages.self, for: users) { _, user, caller throws(KakaoRefusal) in
            try withStory(of: user, needing: scope) { story throws(KakaoRefusal) in
                let files = caller.files
                guard !files.isEmpty else { throw .badParameter("The Parameter [file] cannot be null.") }
                guard files.count <= UploadStoryImages.maximumImages else { throw .tooManyImages }
                var headers: [ImageHeader] = []
                for file in files { headers.append(try file.imageHeader(maximumBytes: Self.maximumImageBytes)) }
                return try story.upload(headers)
            }
        }
        add(PostNote.self, needing: scope, to: &server) { call, story throws(KakaoRefusal) in
            try story.post(.note, call.content, call.options)
        }
        add(PostPhoto.self, needing: scope, to: &server) { call, story throws(KakaoRefusal) in
            let images = call.images.compactMap { story.images[$0] }
            guard images.count == call.images.count else {
                throw .badParameter("failed to parse parameter. name=image_url_list, a path was not uploaded")
            }
            return try story.post(.photo, call.content, media: images.map(\.media), call.options)
        }
        add(PostLink.self, needing: scope, to: &server) { call, story throws(KakaoRefusal) in
            guard let url = call.linkInfo["url"]?.string, WebURL(url) != nil else {
                throw .badParameter("failed to parse parameter. name=link_info, it has no url")
            }
            return try story.post(.link, call.content, linkInfo: call.linkInfo, call.options)
        }
    }

    /// Serves a call that concerns only the user's stories: see ``withStory(of:needing:_:)``.
    private func add<Call: KakaoCall>(
        _: Call.Type,
        needing scope: String? = nil,
        to server: inout KakaoCallServer,
        _ handle: @escaping @Sendable (Call, inout StoryStore.User) throws(KakaoRefusal) -> Call.Answer
    ) {
        server.on(Call.self, for: users) { call, user, _ throws(KakaoRefusal) in
            try withStory(of: user, needing: scope) { story throws(KakaoRefusal) in try handle(call, &story) }
        }
    }

    /// Runs a call for its user.
    ///
    /// - Parameter scope: The scope that the call needs.
    /// - Throws: Error -402 if the user has not agreed to the scope, -601 if the user does not use KakaoStory.
    private func withStory<Answer>(
        of user: AppUsers.User,
        needing scope: String? = nil,
        _ body: (inout StoryStore.User) throws(KakaoRefusal) -> Answer
    ) throws(KakaoRefusal) -> Answer {
        if let scope, !user.scopes.contains(scope) { throw .missingScopes([scope], allowed: user.scopes) }
        return try stories.update(user.id) { story throws(KakaoRefusal) in
            guard story.isStoryUser else {
                throw .error(.notStoryUser, "given account is not connected to any story user.")
            }
            return try body(&story)
        }
    }

    /// Returns a description of a web page that follows from its address. The sandbox does not load the page.
    ///
    /// - Throws: Error -604 for an address that Kakao cannot reach: no http or https, a private host, or one of the
    ///   reserved domain `invalid` (RFC 6761 §6.4).
    private static func linkInfo(_ url: String) throws(KakaoRefusal) -> LinkInfo {
        guard let address = WebURL(url), !address.isLocal, !address.host.hasSuffix(".invalid") else {
            throw .error(.invalidScrapURL, "failed to scrap the url.")
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
