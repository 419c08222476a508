internal import EventLoop
internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// A user whose token was verified.
struct AuthorizedUser: Sendable, Equatable {
    let id: Int64
    /// When the verification began. The user may have left the app since.
    let authorizedAt: MonotonicTime
}

/// The caller of a device endpoint.
enum DeviceCaller: Sendable, Equatable {
    /// An operator or a backend, for any user.
    case `operator`
    /// A user's app, for this user only.
    case user(AuthorizedUser)

    /// When the verification of the caller's token began; `nil` for an operator, whose requests are valid whatever the
    /// user has done since.
    var authorizedAt: MonotonicTime? {
        if case .user(let user) = self { user.authorizedAt } else { nil }
    }

    /// The principal of an operator's request. The principal of a user's request is the user's id.
    static let operatorPrincipal: Int64 = 0

    /// Returns the user that a request is about: `uuid`, which a user's app may omit.
    ///
    /// - Throws: ``Problem``: 400 if an operator omits `uuid`, 403 if a user's app names another user.
    func userID(_ parameters: Parameters) throws -> Int64 {
        guard case .user(let own) = self else { return try parameters.userID("uuid") }
        guard parameters.has("uuid") else { return own.id }
        try require([parameters.userID("uuid")], "uuid")
        return own.id
    }

    /// Checks that the caller may read and change data of these users.
    ///
    /// - Parameter field: The field that names them.
    /// - Throws: ``Problem`` 403.
    func require(_ userIDs: [Int64], _ field: String) throws {
        guard case .user(let own) = self, userIDs.contains(where: { $0 != own.id }) else { return }
        throw Problem(
            .forbidden,
            kind: "another-user",
            "\(field) names another user. A user's token gives access to that user only.",
            members: ["field": .string(field)]
        )
    }
}

extension Request {
    /// Returns the caller that the check of ``Access/deviceCaller`` authenticated.
    ///
    /// - Throws: ``Problem`` 401 on a route without that access.
    func deviceCaller() throws -> DeviceCaller {
        guard let principal else { throw Authenticator.unauthorized }
        guard principal != DeviceCaller.operatorPrincipal else { return .operator }
        guard let authenticatedAt else { throw Authenticator.unauthorized }
        return .user(AuthorizedUser(id: principal, authorizedAt: authenticatedAt))
    }
}
