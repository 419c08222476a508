package import Endpoints
package import EventLoop
import HTTPServer
import JSON
import Schemas

extension Call {
    /// The user that a request of an app is about, as Kakao's API names the field.
    package static let uuid = userField("uuid")
    /// The same, as this server's own operations name it. Each accepts the other's name.
    package static let user = userField("user_id")

    private static func userField(_ name: String) -> Field<Int64?> {
        .optional(name, .userID, "The user. An operator names a user; a user's token implies the user.")
    }

    /// Returns the user that a request is about.
    ///
    /// - Parameter field: The field of the operation that names the user.
    /// - Throws: ``Problem``: 400 if an operator omits the user, 403 if a user's app names another one.
    package func userID(_ field: Field<Int64?>) throws -> Int64 {
        let given = try self[field]
        if let own = caller.user {
            if let given { try caller.require([given], field.name) }
            return own.id
        }
        guard let given else { throw Problem.field(field.name, Kind.userID.allowed, isMissing: true) }
        return given
    }

    /// The user whose app calls an operation with ``Access/user``, which admits no other callers.
    ///
    /// - Throws: ``Problem`` 403 for another caller.
    package var ownUserID: Int64 {
        get throws {
            guard let user = caller.user else { throw Problem(of: .missingScope, "Only a user's app may call this.") }
            return user.id
        }
    }
}

extension Caller {
    /// The user whose app calls; `nil` for other callers.
    package var user: AuthorizedUser? {
        if case .user(let user) = self { user } else { nil }
    }

    /// When the verification of the caller's token began; `nil` for an operator, whose requests are valid whatever the
    /// user has done since.
    package var authorizedAt: MonotonicTime? { user?.authorizedAt }

    /// Checks that the caller may read and change data of these users.
    ///
    /// - Parameter field: The field that names them.
    /// - Throws: ``Problem`` 403.
    package func require(_ userIDs: [Int64], _ field: String) throws {
        let isAnother: Bool =
            switch self {
            case .user(let own): userIDs.contains { $0 != own.id }
            // The user has no id.
            case .unlinkedUser: !userIDs.isEmpty
            case .anyone, .operator, .app, .kakao: false
            }
        guard isAnother else { return }
        throw Problem(
            of: .anotherUser,
            "\(field) names another user. A user's token gives access to that user only.",
            members: ["field": .string(field)]
        )
    }
}
