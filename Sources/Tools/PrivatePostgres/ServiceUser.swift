import Glibc

/// The user that the database runs as, which is never root, because PostgreSQL refuses that.
struct ServiceUser: Sendable, Equatable {
    let userID: uid_t
    let groupID: gid_t

    /// Returns the user of this process; for root `postgres`, or else `nobody`.
    static func current() throws(PrivatePostgresError) -> ServiceUser {
        guard geteuid() == 0 else { return ServiceUser(userID: geteuid(), groupID: getegid()) }
        for name in ["postgres", "nobody"] {
            if let entry = getpwnam(name), entry.pointee.pw_uid != 0 {
                return ServiceUser(userID: entry.pointee.pw_uid, groupID: entry.pointee.pw_gid)
            }
        }
        throw PrivatePostgresError(
            "PostgreSQL refuses to run as root, and there is no user postgres or nobody. Create one of them."
        )
    }

    /// Whether this user differs from the user of this process.
    var isAnother: Bool { userID != geteuid() }
}
