import FoundationEssentials
import Postgres
import ServiceKit

/// Deletes the tokens of users who have logged out or left the app, or whose tokens Kakao has revoked, unless they have
/// logged in since. Returns the users whose accounts changed.
struct EndAccounts: PostgresStatement {
    static let sql: SQL = """
        WITH latest AS (
            SELECT DISTINCT ON (account.user_id) account.user_id, event.state, event.reason, event.happened_at
            FROM unnest($1::bigint[], $2::text[], $3::text[], $4::timestamptz[])
                AS event (user_id, state, reason, happened_at)
            JOIN accounts AS account ON account.user_id = event.user_id
            WHERE account.linked_at < event.happened_at
            -- A user who has left the app is also logged out.
            ORDER BY account.user_id, event.state DESC, event.happened_at DESC
        ),
        held AS (
            SELECT account.user_id, latest.state, latest.reason
            FROM accounts AS account
            JOIN latest ON latest.user_id = account.user_id
            -- A login may have been stored since `latest` was read.
            WHERE account.linked_at < latest.happened_at
                AND account.state <> 'unlinked'
            ORDER BY account.user_id
            FOR UPDATE OF account
        )
        UPDATE accounts AS account
        SET state = held.state,
            reason = held.reason,
            tokens = NULL,
            key_id = NULL,
            refresh_token_sha256 = NULL,
            access_token_ends_at = NULL,
            refresh_at = NULL,
            refresh_token_ends_at = NULL,
            renew_at = NULL,
            lease = NULL,
            lease_ends_at = NULL,
            attempts = 0,
            retry_at = NULL
        FROM held
        WHERE account.user_id = held.user_id
        RETURNING account.user_id
        """

    let events: [UserEvent]

    var parameters: [PostgresValue] {
        [
            .int64s(events.map(\.userID)),
            .texts(
                events.map { event in
                    switch event.kind {
                    case .tokensRevoked: AccountState.loginRequired.rawValue
                    case .left: AccountState.unlinked.rawValue
                    }
                }
            ),
            .texts(
                events.map { event -> String? in
                    switch event.kind {
                    case .tokensRevoked:
                        (event.type == UserEvent.logout ? LoginReason.loggedOut : .revoked).rawValue
                    case .left: nil
                    }
                }
            ),
            .timestamps(events.map(\.happenedAt)),
        ]
    }
    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}

/// Marks up to `limit` accounts whose refresh token has expired.
struct ExpireAccounts: PostgresStatement {
    static let sql: SQL = """
        WITH expired AS (
            SELECT user_id
            FROM accounts
            WHERE state = 'linked'
                AND refresh_token_ends_at <= now()
                AND (lease IS NULL OR lease_ends_at <= now())
            ORDER BY refresh_token_ends_at
            LIMIT $1
            FOR UPDATE SKIP LOCKED
        )
        UPDATE accounts AS account
        SET state = 'login_required',
            reason = $2,
            lease = NULL,
            lease_ends_at = NULL
        FROM expired
        WHERE account.user_id = expired.user_id
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit)), .text(LoginReason.expired.rawValue)] }
}

/// Deletes the account of a user, unless the user has logged in since a time.
struct DeleteAccount: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM accounts
        WHERE user_id = $1
            AND ($2::timestamptz IS NULL OR linked_at <= $2)
        """

    let userID: Int64
    /// `nil` for any login.
    let linkedUntil: Date?

    var parameters: [PostgresValue] { [.int64(userID), .timestamp(linkedUntil)] }
}
