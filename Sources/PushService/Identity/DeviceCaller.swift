internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// Who calls a device endpoint.
enum DeviceCaller: Sendable, Equatable {
    /// An operator or a backend, for any user.
    case `operator`
    /// A user's app, for this user and nobody else.
    case user(Int64)

    /// The user whom a request is about: `uuid`, which a user's credential implies.
    ///
    /// - Throws: ``Problem``: 400 without `uuid` where it is needed, 403 for another user than the caller.
    func userID(_ parameters: Parameters) throws -> Int64 {
        guard case .user(let own) = self else { return try parameters.userID("uuid") }
        guard parameters.has("uuid") else { return own }
        try require([parameters.userID("uuid")], "uuid")
        return own
    }

    /// Sees that the caller may read and change what these users have.
    ///
    /// - Parameter field: Where they were named.
    /// - Throws: ``Problem`` 403.
    func require(_ userIDs: [Int64], _ field: String) throws {
        guard case .user(let own) = self, userIDs.contains(where: { $0 != own }) else { return }
        throw Problem(
            .forbidden,
            kind: "another-user",
            "\(field) names another user than the one whose token this is.",
            members: ["field": .string(field)]
        )
    }
}
