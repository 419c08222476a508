internal import EventLoop
internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// A user whose token was verified.
struct AuthorizedUser: Sendable, Equatable {
    let id: Int64
    /// When the issuer, or its signature, began to be asked: the user may have left the app since.
    let authorizedAt: MonotonicTime
}

/// Who calls a device endpoint.
enum DeviceCaller: Sendable, Equatable {
    /// An operator or a backend, for any user.
    case `operator`
    /// A user's app, for this user and nobody else.
    case user(AuthorizedUser)

    /// When the caller's token was verified; `nil` for an operator, whose word holds whatever the user has done.
    var authorizedAt: MonotonicTime? {
        if case .user(let user) = self { user.authorizedAt } else { nil }
    }

    /// The principal of a request of an operator; that of a user is the user's id.
    static let operatorPrincipal: Int64 = 0

    /// The user whom a request is about: `uuid`, which a user's credential implies.
    ///
    /// - Throws: ``Problem``: 400 without `uuid` where it is needed, 403 for another user than the caller.
    func userID(_ parameters: Parameters) throws -> Int64 {
        guard case .user(let own) = self else { return try parameters.userID("uuid") }
        guard parameters.has("uuid") else { return own.id }
        try require([parameters.userID("uuid")], "uuid")
        return own.id
    }

    /// Sees that the caller may read and change what these users have.
    ///
    /// - Parameter field: Where they were named.
    /// - Throws: ``Problem`` 403.
    func require(_ userIDs: [Int64], _ field: String) throws {
        guard case .user(let own) = self, userIDs.contains(where: { $0 != own.id }) else { return }
        throw Problem(
            .forbidden,
            kind: "another-user",
            "\(field) names another user than the one whose token this is.",
            members: ["field": .string(field)]
        )
    }
}

extension Request {
    /// The caller, as found by the check of ``Access/deviceCaller``.
    ///
    /// - Throws: ``Problem`` 401 on a route without that access.
    func deviceCaller() throws -> DeviceCaller {
        guard let principal else { throw Authenticator.unauthorized }
        guard principal != DeviceCaller.operatorPrincipal else { return .operator }
        guard let authenticatedAt else { throw Authenticator.unauthorized }
        return .user(AuthorizedUser(id: principal, authorizedAt: authenticatedAt))
    }
}
