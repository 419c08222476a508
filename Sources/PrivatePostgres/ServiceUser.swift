internal import Glibc

/// The user that the database runs as: PostgreSQL refuses to run as root.
struct ServiceUser: Sendable, Equatable {
    let userID: uid_t
    let groupID: gid_t

    /// Who we are, or for root `postgres`, or else `nobody`.
    static func current() throws(PrivatePostgresError) -> ServiceUser {
        guard geteuid() == 0 else { return ServiceUser(userID: geteuid(), groupID: getegid()) }
        for name in ["postgres", "nobody"] {
            if let entry = getpwnam(name), entry.pointee.pw_uid != 0 {
                return ServiceUser(userID: entry.pointee.pw_uid, groupID: entry.pointee.pw_gid)
            }
        }
        throw PrivatePostgresError("There is neither a user postgres nor a user nobody for PostgreSQL to run as.")
    }

    /// Whether programs have to be told to run as this user.
    var isAnother: Bool { userID != geteuid() }
}
