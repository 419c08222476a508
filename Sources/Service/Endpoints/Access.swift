package import EventLoop
package import FoundationEssentials
package import HTTPServer

/// The callers that an operation admits. The server checks it on the request's head, before it reads any of the body.
package enum Access: Sendable, Equatable {
    /// Any caller, without a credential.
    case anyone(OpenLimit)
    /// Any caller, without a credential, but only at the port for operators if there is one.
    case operatorPort(OpenLimit)
    /// Operators whose key has all of these scopes.
    case `operator`([Scope])
    /// Operators whose key has one of these scopes.
    case operatorWithAny([Scope])
    /// Operators whose key has the scope `read`. A key that was accepted within the last hour is accepted even while
    /// the database is unavailable, since operators need the metrics most then.
    case monitoring
    /// Operators whose key has the scope `devices`, for any user; and users' apps, for their own user. The authorization
    /// limits the requests of each user and of each address.
    case device
    /// Users' apps, for their own user, with any token that ``device`` accepts and under the same limits. No operator, who has operations
    /// for any user.
    case user
    /// Operators whose key has this scope, for any user; and users with an access token of Kakao Login, for themselves.
    /// Their requests are limited as those of ``device``. `admitsUnlinked` says whether a user may call who is not linked to the
    /// app yet: ``Caller/unlinkedUser``.
    case kakaoUser(Scope, admitsUnlinked: Bool = false)
    /// Operators whose key has this scope; and phones and pages with one of the app's own keys and the header field `KA`, if the
    /// settings admit them. These keys are public, so that the authorization limits the requests of each network and of all.
    case appKey(Scope)
    /// Kakao, authenticated by the Admin key.
    case kakao
    /// Kakao, authenticated by the feedback secret in the path: the parameter `{secret}`.
    case kakaoAddress

    /// Operators whose key has this scope.
    package static func `operator`(_ scope: Scope) -> Access { .operator([scope]) }

    /// Whether callers other than operators have this access. Beside a port for operators, the public port offers only
    /// operations with such an access, and admits these callers only.
    package var isPublic: Bool {
        switch self {
        case .anyone, .device, .user, .kakaoUser, .appKey, .kakao, .kakaoAddress: true
        case .operatorPort, .operator, .operatorWithAny, .monitoring: false
        }
    }

    /// Whether users have this access, except those who are not linked to the app yet.
    var refusesUnlinked: Bool {
        switch self {
        case .device, .user, .kakaoUser(_, admitsUnlinked: false): true
        case .kakaoUser(_, admitsUnlinked: true): false
        case .anyone, .operatorPort, .operator, .operatorWithAny, .monitoring, .appKey, .kakao, .kakaoAddress: false
        }
    }

    /// The limit of an operation that needs no credential; `nil` for one that does.
    package var openLimit: OpenLimit? {
        switch self {
        case .anyone(let limit), .operatorPort(let limit): limit
        case .operator, .operatorWithAny, .monitoring, .device, .user, .kakaoUser, .appKey, .kakao, .kakaoAddress: nil
        }
    }
}

/// The limit of what strangers can make an operation do that needs no credential. Each such operation declares one.
package enum OpenLimit: Sendable, Equatable {
    /// Each request takes the same short time on the event loop: the handler responds at once, and calls neither PostgreSQL
    /// nor Kakao.
    case constantCost
    /// The handler limits the work, in this way: a sentence for `docs/threat-model.md`.
    case limited(String)
}

/// The authentication and authorization of requests.
package protocol Authorizer: Sendable {
    /// Returns the check for an operation with this access; `nil` if it admits anyone.
    ///
    /// - Parameter inKakaoFormat: Whether the operation has the format of Kakao's API, whose clients know Kakao's codes only.
    ///
    /// The check sets ``Request/principal`` to the ``Caller``, and throws a ``Problem`` for a request that is not
    /// admitted.
    func check(_ access: Access, inKakaoFormat: Bool) -> HeadCheck?
}

/// The authenticated caller of an operation.
package enum Caller: Principal, Equatable {
    case anyone
    /// An operator or a backend.
    case `operator`(KeyIdentity)
    /// A user's app, for this user only.
    case user(AuthorizedUser)
    /// A user who has logged in to the app and is not linked to it, since the app links its users when they sign up. Kakao
    /// has no id of the user, who may sign up, and end the login.
    case unlinkedUser
    /// A phone or a page, with one of the app's own keys.
    case app(AppCaller)
    case kakao
}

extension Caller {
    package var keyName: String? { key?.name }

    /// The key of an operator; `nil` for other callers.
    package var key: KeyIdentity? {
        if case .operator(let key) = self { key } else { nil }
    }
}

/// An operator key, as logs and records name it.
package struct KeyIdentity: Sendable, Equatable {
    /// The key in the settings, whose value may change.
    package static let setting = KeyIdentity(id: .zero, name: "operator.key", digest: [], scopes: [.admin])

    /// The id that the key was created with; zeros for the key in the settings.
    package let id: UUID
    /// The name that the key was created with, which other keys may have too.
    package let name: String
    /// The SHA-256 of the key; empty for the key in the settings.
    package let digest: [UInt8]
    package let scopes: Set<Scope>
    /// The session in which an operator acts who has signed in with the key; `nil` for a request with the key itself.
    package let session: OperatorSession?

    package init(id: UUID, name: String, digest: [UInt8], scopes: Set<Scope>, session: OperatorSession? = nil) {
        self.id = id
        self.name = name
        self.digest = digest
        self.scopes = scopes
        self.session = session
    }
}

/// A phone or a page that calls with one of the app's own keys.
package struct AppCaller: Sendable, Equatable {
    /// The native app key or the JavaScript key, which is public.
    package let key: String
    /// The header field `KA`, in which Kakao's SDKs describe themselves and the app.
    package let agent: String

    package init(key: String, agent: String) {
        self.key = key
        self.agent = agent
    }
}

/// A user whose token was verified.
package struct AuthorizedUser: Sendable, Equatable {
    /// The user's id, which the token names.
    package let id: Int64
    /// When the verification began. The user may have left the app since.
    package let authorizedAt: MonotonicTime

    package init(id: Int64, authorizedAt: MonotonicTime) {
        self.id = id
        self.authorizedAt = authorizedAt
    }
}
