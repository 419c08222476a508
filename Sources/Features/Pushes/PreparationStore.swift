import FoundationEssentials
import Locking
import Postgres

/// Expands audiences into batches, step by step.
///
/// A step reads the next users of the audience. One statement then stores them as a part of the push and moves the
/// push's cursor, unless another server has already done so (``StorePushPart``). A step is therefore atomic and needs
/// memory only for its own users, and any server can continue where another one stopped.
struct PreparationStore: Sendable {
    /// The number of batches whose requests a dry run shows.
    private static let previewBatches = 3

    let pool: PostgresPool
    var settings = Locked(PushSettings())

    /// A push whose audience is not completely expanded, or whose batches are being retried.
    struct Preparation: Sendable {
        let pushID: UUID
        fileprivate(set) var audience: PushAudience.Source
        /// The users that the push excludes, apart from those without consent.
        let exclusion: ExcludedUsers
        /// Whether it goes only to users with the consent that the settings name.
        let needsConsent: Bool
        let platforms: [String]
        /// Whether failed batches are to be made waiting, after the audience was expanded.
        let isRetry: Bool
        /// The cursor: the end of the last step.
        fileprivate(set) var position: Int64

        /// Returns the preparation with its cursor after a page.
        func moved(past page: AudiencePage) -> Preparation {
            var moved = self
            moved.position = page.position
            moved.audience = page.audience
            return moved
        }
    }

    /// Returns up to `limit` pushes that are to be prepared now, the oldest first.
    func due(limit: Int) async throws -> [Preparation] {
        try await pool.read(ListPreparations(limit: Int64(limit), hours: settings.hours))
    }

    /// Halts a push that cannot be prepared until an operator acts. Returns whether it was to be prepared.
    func halt(_ pushID: UUID, reason: String) async throws -> Bool {
        try await pool.write(HaltPreparation(pushID: pushID, reason: reason)) > 0
    }

    /// Returns the users that a step excludes. Consent is checked by the present settings, not by those at the creation of the push.
    func exclusion(of preparation: Preparation) -> ExcludedUsers {
        var exclusion = preparation.exclusion
        if preparation.needsConsent { exclusion.consent = settings.consent(on: preparation.platforms) }
        return exclusion
    }

    /// Reads the users of the next step.
    func page(_ preparation: Preparation) async throws -> AudiencePage? {
        try await AudiencePage.read(
            preparation.audience,
            from: preparation.position,
            platforms: preparation.platforms,
            pool
        )
    }

    // MARK: Dry runs

    /// The result of a dry run.
    struct Preview: Sendable {
        var users: Int64 = 0
        var skipped: Int64 = 0
        /// Those who would be sent to without the exclusion. The other numbers do not include them.
        var excluded: Int64 = 0
        /// The others who would be sent to with their consent. The other numbers do not include them.
        var withoutConsent: Int64 = 0
        var batches: Int64 = 0
        /// The users of the first batches.
        var first: [[Int64]] = []

        /// The users to send to.
        var sent: Int64 { users - skipped }
    }

    /// Returns the id of the parts of a stored audience; `nil` if there is no audience with this name.
    func parts(ofAudience name: AudienceName) async throws -> UUID? {
        try await pool.read(FindAudienceParts(name: name)).first
    }

    /// Reads an audience in the steps in which it would be prepared, and stores nothing. Uses a connection of its own,
    /// like ``page(_:)``.
    ///
    /// - Parameter pool: That of this store, or of its replica.
    func preview(
        _ audience: PushAudience.Source,
        without exclusion: ExcludedUsers,
        platforms: [String],
        batchUsers: Int32,
        on pool: PostgresPool
    ) async throws -> Preview {
        var preview = Preview()
        var audience = audience
        var position: Int64 = 0
        var isLast = false
        while !isLast {
            let page = try await AudiencePage.read(audience, from: position, platforms: platforms, pool)
            guard let page else { break }
            let found = try await page.users(without: exclusion, listsSkipped: false, pool)
            let users = found.ids
            preview.users += found.count
            preview.skipped += found.count - Int64(users.count)
            preview.excluded += found.excluded
            preview.withoutConsent += found.withoutConsent
            preview.batches += (Int64(users.count) + Int64(batchUsers) - 1) / Int64(batchUsers)
            for start in stride(from: 0, to: users.count, by: Int(batchUsers))
            where preview.first.count < Self.previewBatches {
                preview.first.append(Array(users[start..<min(start + Int(batchUsers), users.count)]))
            }
            (audience, position, isLast) = (page.audience, page.position, page.isLast)
        }
        return preview
    }
}

// MARK: Statements

/// Lists the pushes that are to be prepared, the oldest first. A push that leaves out the users of others waits until it
/// is known who they are. Advertising waits for its hours, so that a consent that is demanded or withdrawn before them counts. All wait until
/// all servers know what a new run of PostgreSQL has lost.
struct ListPreparations: PostgresStatement {
    static let sql: SQL = """
        SELECT id, user_ids IS NOT NULL, audience_parts_id, ARRAY(SELECT jsonb_array_elements_text(audience -> 'tags_any')),
            ARRAY(SELECT jsonb_array_elements_text(audience -> 'tags_all')), platforms,
            ARRAY(SELECT jsonb_array_elements_text(exclusion -> 'tags_any')), excluded_parts_id, COALESCE(excluded_pushes, '{}'),
            kind IS NOT DISTINCT FROM 'advertising', retry_position IS NOT NULL, prepared_up_to
        FROM pushes
        WHERE state IN ('scheduled', 'preparing', 'sending')
            AND (
                prepared_at IS NULL AND (state = 'preparing' OR state = 'scheduled' AND send_at <= now())
                OR state = 'sending' AND retry_position IS NOT NULL
            )
            AND (excluded_pushes IS NULL OR push_waits_for(excluded_pushes, prepared_at, finished_at) = '{}')
            AND \(AdvertisingHours.admit(hours: "$2"))
            AND (SELECT commits_are_checked('pushes'))
        ORDER BY id
        LIMIT $1
        """

    let limit: Int64
    let hours: PostgresValue

    var parameters: [PostgresValue] { [.int64(limit), hours] }

    static func decode(_ row: PostgresRow) throws -> PreparationStore.Preparation {
        try row.decode { column in
            let id = try column.next(UUID.self)
            let isOwn = try column.next(Bool.self)
            let partsID = try column.next(UUID?.self)
            let tagsAny = try column.next([String].self)
            let tagsAll = try column.next([String].self)
            let audience: PushAudience.Source =
                if isOwn {
                    .own(id)
                } else if let partsID {
                    .parts(partsID)
                } else if !tagsAny.isEmpty {
                    .tagsAny(tagsAny)
                } else if !tagsAll.isEmpty {
                    .tagsAll(tagsAll)
                } else {
                    .everyone
                }
            let platforms = try column.next([String].self)
            let exclusion = try ExcludedUsers(
                tags: column.next(),
                partsID: column.next(),
                pushes: column.next()
            )
            return try PreparationStore.Preparation(
                pushID: id,
                audience: audience,
                exclusion: exclusion,
                needsConsent: column.next(),
                platforms: platforms,
                isRetry: column.next(),
                position: column.next()
            )
        }
    }
}

/// Finds the parts of the stored audience with a name.
struct FindAudienceParts: PostgresStatement {
    static let sql: SQL = """
        SELECT parts_id
        FROM audiences
        WHERE name = $1
        """

    let name: AudienceName

    var parameters: [PostgresValue] { [.text(name.text)] }
    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
}
