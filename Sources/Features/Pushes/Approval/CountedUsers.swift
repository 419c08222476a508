/// The users of a push, counted before it is stored, and the limit above which it needs an approval.
struct CountedUsers: Sendable {
    /// The users to send to: without those who are skipped or left out.
    let number: Int64
    let limit: Int64

    var needsApproval: Bool { number > limit }

    /// The most users that the push may have when it is prepared: a tenth more than were counted, or as many as need no approval.
    ///
    /// This holds for every audience. A listed user is skipped today and has a device tomorrow; a user who is left out for a tag
    /// may lose it; and a stored audience may be replaced between the count and the creation of the push.
    var allowed: Int64 { max(limit, number + number / 10) }
}

extension NewPush {
    /// Whether the push may need an approval, so that its users have to be counted.
    var mayNeedApproval: Bool {
        guard let approvalAboveUsers else { return false }
        guard case .users(let ids) = audience else { return true }
        return Set(ids).count > approvalAboveUsers
    }

    var needsApproval: Bool { counted?.needsApproval ?? false }
}
