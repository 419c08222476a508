/// A call of Kakao's REST API, declared once: the client, the endpoint that relays it, the sandbox, the label of the
/// metrics and the OpenAPI document follow from its ``operation``. A value of the type is one request.
///
/// ``KakaoCalls/all`` lists all calls. `docs/contributing.md` shows how one is added.
package protocol KakaoCall: Sendable {
    /// The response to a call that succeeds.
    associatedtype Answer: Sendable
    static var operation: KakaoOperation<Self> { get }
}

extension KakaoCall {
    /// The name in metrics and of the fixture.
    package static var name: String { operation.name }
}

/// The groups of calls that Kakao documents together.
package enum KakaoFamily: Sendable, Hashable {
    /// Push notifications.
    case push
    /// Kakao Login: tokens, users, scopes, terms.
    case user
    /// KakaoTalk Social, KakaoTalk Message and KakaoTalk Channel.
    case talk
    /// KakaoTalk Sharing (Kakao Link): templates and images.
    case sharing
    /// KakaoStory, which Kakao has ended.
    case story
    /// Kakao's servers themselves.
    case system
    /// Talk Calendar: calendars, events, tasks, and what channels publish.
    case calendar
}

/// The hosts of Kakao's REST API.
package enum KakaoHost: Sendable {
    /// `kapi.kakao.com`.
    case api
    /// `kauth.kakao.com`: OAuth and OpenID Connect.
    case auth
}
