import FoundationEssentials
import Postgres

/// A page of an audience: the users that one step of the preparation reads.
struct AudiencePage: Sendable {
    /// The source of the following pages, with the best way to read them.
    let audience: PushAudience.Source
    private let found: FoundPhones

    /// The position of the next page.
    var position: Int64 { found.end }

    /// Whether there is no page after this one.
    var isLast: Bool { found.isLast }

    /// Reads the page of an audience that begins at `start`.
    ///
    /// Uses a connection of its own, because reading 50,000 users would delay the statements of requests.
    ///
    /// - Parameter platforms: The push types of the phones that the message addresses; empty for all.
    static func read(
        _ audience: PushAudience.Source,
        from start: Int64,
        platforms: [String],
        _ pool: PostgresPool
    ) async throws -> AudiencePage? {
        // Without push types, no phones have to be looked up.
        var audience = platforms.isEmpty ? audience.lookingUpPhones : audience
        var limit = audience.limit(at: start)
        if case .parts(let id, .ranges) = audience {
            if let found = try await readRange(id, from: start, limit, platforms, pool) {
                return AudiencePage(audience: audience, found: found)
            }
            audience = audience.lookingUpPhones
        }
        while true {
            guard var found = try await audience.page(from: start, limit, platforms, pool) else { return nil }
            if !found.isLast, found.end == start {
                // All phones that were found belong to one user. Only users from before the device limit have so many.
                guard limit >= PushAudience.Source.maximumLimit else {
                    limit = min(limit * 2, PushAudience.Source.maximumLimit)
                    continue
                }
                found.skipCutUser()
            }
            return AudiencePage(audience: audience, found: found)
        }
    }

    /// Reads parts of a stored audience, and all phones of users from the first to the last in these parts.
    ///
    /// - Returns: `nil` if there are so many phones that it is faster to look them up by user.
    private static func readRange(
        _ id: UUID,
        from start: Int64,
        _ limit: Int64,
        _ platforms: [String],
        _ pool: PostgresPool
    ) async throws -> FoundPhones? {
        let parts = try await pool.queryAlone(ListAudienceParts(partsID: id, after: start, limit: limit))
        guard let first = try parts.first?.decode([Int64].self).first,
            let last = try parts.last?.decode([Int64].self).last
        else { return nil }
        let range = ReadPhoneRange(
            partsID: id,
            end: start + limit,
            users: first...last,
            platforms: platforms,
            limit: PushAudience.Source.maxPhonesPerPart * Int64(parts.count)
        )
        return try await pool.queryAlone(range).first.map {
            FoundPhones(phones: $0.phones, members: parts, cutUser: nil, end: start + limit, isLast: $0.isLast)
        }
    }

    /// The users of a page.
    struct Users: Sendable {
        /// The users to send to, each once, in ascending order.
        fileprivate(set) var ids: [Int64] = []
        /// The users of the audience, with or without a phone that the message addresses.
        fileprivate(set) var count: Int64 = 0
        /// All other users of the audience. Some of them count, those without a phone that the message addresses.
        fileprivate(set) var skipped = SkippedUsers()
        /// The users who would have been sent to, but are left out. They do not count as users of the audience.
        fileprivate(set) var excluded: Int64 = 0
        /// The others who have not consented. They do not count as users of the audience either.
        fileprivate(set) var withoutConsent: Int64 = 0
    }

    /// Returns the users of the page. This takes a while, in which the next page can be read.
    ///
    /// - Parameters:
    ///   - exclusion: The users who are left out.
    ///   - listsSkipped: Whether users without a phone are left out as well: an export of them must not have those who are left out.
    func users(
        without exclusion: ExcludedUsers,
        listsSkipped: Bool = true,
        _ pool: PostgresPool
    ) async throws -> Users {
        var users = try users()
        guard !exclusion.isEmpty else { return users }
        let all = listsSkipped ? users.ids.merged(with: users.skipped.noDevice) : users.ids
        users.leaveOut(try await exclusion.leftOut(of: all, pool))
        return users
    }

    private func users() throws -> Users {
        var phones = try found.phones.decode([Int64].self)[...]
        while let last = phones.last, let cutUser = found.cutUser, last.magnitude == cutUser.magnitude {
            phones.removeLast()
        }
        let members = try found.members?.flatMap { try $0.decode([Int64].self) }
        var users = Users()
        users.add(phones, of: members)
        // Users without a phone count as well.
        if case .parts(_, .ranges) = audience, let members {
            users.count = Int64(members.count)
            users.skipped.noDevice = members
            users.skipped.noDevice.subtract(users.ids)
        }
        return users
    }
}

extension AudiencePage.Users {
    /// Adds the users of phones who belong to the audience.
    ///
    /// - Parameters:
    ///   - phones: A user id for each phone, grouped by user; negative for a phone that the message does not address.
    ///   - members: The users of the audience, in the same order; `nil` for everyone.
    fileprivate mutating func add(_ phones: ArraySlice<Int64>, of members: [Int64]?) {
        ids.reserveCapacity(phones.count)
        var members = members?[...]
        var (user, isAddressed) = (Int64(0), false)
        for phone in phones {
            let id = Int64(phone.magnitude)
            if id != user {
                (user, isAddressed) = (id, false)
                while let first = members?.first, first < id { members?.removeFirst() }
                guard members == nil || members?.first == id else { continue }
                count += 1
                skipped.noDevice.append(id)
            } else if isAddressed || !(members == nil || members?.first == id) {
                continue
            }
            guard phone > 0 else { continue }
            isAddressed = true
            ids.append(id)
            skipped.noDevice.removeLast()
        }
    }

    /// Moves users who are left out from the others to the skipped ones.
    fileprivate mutating func leaveOut(_ leftOut: ExcludedUsers.LeftOut) {
        (skipped.excluded, skipped.withoutConsent) = (leftOut.excluded, leftOut.withoutConsent)
        let before = ids.count
        ids.subtract(leftOut.excluded)
        let between = ids.count
        ids.subtract(leftOut.withoutConsent)
        (excluded, withoutConsent) = (Int64(before - between), Int64(between - ids.count))
        count -= excluded + withoutConsent
        skipped.noDevice.subtract(leftOut.excluded)
        skipped.noDevice.subtract(leftOut.withoutConsent)
    }
}

extension PushAudience {
    /// The source of an audience's users.
    enum Source: Sendable {
        /// These users, in ascending order.
        case users([Int64])
        /// The users that are stored with the push of this id.
        case own(UUID)
        /// The parts that are stored under this id.
        case parts(UUID, PhoneSearch = .ranges)
        case tagsAny([String])
        case tagsAll([String])
        case everyone
    }

    /// The way in which the phones of an audience's users are looked up.
    enum PhoneSearch: Sendable {
        /// Reads all phones between the first and the last user of a page. This is much faster per phone than a look-up
        /// by user, as long as most of the phones belong to the audience.
        case ranges
        /// Looks up the phones of each user.
        case lookUps
    }
}

extension PushAudience.Source {
    /// The number of users or phones of the first step, which is small so that sending begins soon, and of later steps.
    private static let maxUsersOfFirstStep: Int64 = 1000
    private static let maxUsersOfLaterSteps: Int64 = 50_000
    /// The maximum number of users or phones of a page.
    fileprivate static let maximumLimit = maxUsersOfLaterSteps
    /// The number of users in a part of a stored audience.
    private static let usersPerPart: Int64 = 1000
    /// The number of phones per part at which a page looks up phones by user instead, which then takes about as long as
    /// reading the range.
    fileprivate static let maxPhonesPerPart = 8 * usersPerPart

    /// The source with phones looked up by user.
    var lookingUpPhones: PushAudience.Source {
        if case .parts(let id, _) = self { .parts(id, .lookUps) } else { self }
    }

    /// Returns the number of users, phones or parts that the page at `position` reads.
    func limit(at position: Int64) -> Int64 {
        let users = position == 0 ? Self.maxUsersOfFirstStep : Self.maxUsersOfLaterSteps
        if case .parts = self { return users / Self.usersPerPart }
        return users
    }

    /// Reads the page that begins at `position`, on a connection of its own.
    fileprivate func page(
        from position: Int64,
        _ limit: Int64,
        _ platforms: [String],
        _ pool: PostgresPool
    ) async throws -> FoundPhones? {
        switch self {
        case .users(let ids):
            let read = ReadListedPhones(after: position, limit: limit, platforms: platforms, userIDs: ids, pushID: nil)
            return try await pool.queryAlone(read).first
        case .own(let id):
            let read = ReadListedPhones(after: position, limit: limit, platforms: platforms, userIDs: nil, pushID: id)
            return try await pool.queryAlone(read).first
        case .parts(let id, _):
            let read = ReadPartPhones(after: position, limit: limit, platforms: platforms, partsID: id)
            return try await pool.queryAlone(read).first
        case .tagsAny(let tags):
            let read = ReadTaggedPhones(after: position, limit: limit, platforms: platforms, tags: tags, isAll: false)
            return try await pool.queryAlone(read).first
        case .tagsAll(let tags):
            let read = ReadTaggedPhones(after: position, limit: limit, platforms: platforms, tags: tags, isAll: true)
            return try await pool.queryAlone(read).first
        case .everyone:
            return try await pool.queryAlone(ReadPhones(after: position, limit: limit, platforms: platforms)).first
        }
    }
}
