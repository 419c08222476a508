-- Accounts: the users whose Kakao tokens the server keeps. docs/accounts.md describes their states.

CREATE TABLE accounts (
    user_id                 bigint      PRIMARY KEY,
    state                   text        NOT NULL CHECK (state IN ('linked', 'login_required', 'unlinked')),
    -- Why the user must log in again.
    reason                  text,
    -- The app key that the tokens were issued for, and are refreshed with.
    app_key                 text        NOT NULL CHECK (app_key IN ('rest', 'native', 'javascript')),
    -- A refresh token may be used on one side only.
    refreshed_by            text        NOT NULL CHECK (refreshed_by IN ('server', 'app')),
    scopes                  text[]      NOT NULL,
    -- The access token and the refresh token, encrypted. NULL if they were deleted.
    tokens                  bytea,
    -- The id of the key that encrypted them.
    key_id                  text,
    -- The digest of the refresh token. The response to a refresh is stored only while the row has the token that was
    -- used. NULL without a refresh token.
    refresh_token_sha256    bytea       CHECK (length(refresh_token_sha256) = 32),
    access_token_ends_at    timestamptz,
    -- The time from which the access token is refreshed before it is used.
    refresh_at              timestamptz,
    refresh_token_ends_at   timestamptz,
    -- The time from which the refresh token is renewed, whether or not the access token is used.
    renew_at                timestamptz,
    -- The lease of the server that refreshes the tokens now. No other server does so before `lease_ends_at`.
    lease                   uuid,
    lease_ends_at           timestamptz,
    -- The failed refreshes since the last one that succeeded. There is no further one before `retry_at`.
    attempts                integer     NOT NULL DEFAULT 0,
    retry_at                timestamptz,
    created_at              timestamptz NOT NULL DEFAULT now(),
    -- The last login.
    linked_at               timestamptz NOT NULL DEFAULT now(),
    refreshed_at            timestamptz,
    -- Whether the refresh token is known to be this user's: not between an import and the first refresh.
    is_verified             boolean     NOT NULL DEFAULT true,
    CONSTRAINT accounts_tokens_check CHECK (num_nulls(tokens, key_id, access_token_ends_at, refresh_at) IN (0, 4)),
    CONSTRAINT accounts_linked_check CHECK (state <> 'linked' OR tokens IS NOT NULL),
    CONSTRAINT accounts_lease_check CHECK ((lease IS NULL) = (lease_ends_at IS NULL))
);
-- Ciphertexts cannot be compressed.
ALTER TABLE accounts ALTER COLUMN tokens SET STORAGE EXTERNAL;

-- Lists and counts the accounts in a state.
CREATE INDEX accounts_state ON accounts (state, user_id);
-- Finds the accounts that rotate-key has yet to encrypt again.
CREATE INDEX accounts_key_id ON accounts (key_id, user_id) WHERE tokens IS NOT NULL;
CREATE INDEX accounts_renew_at ON accounts (renew_at) WHERE state = 'linked' AND refreshed_by = 'server';
CREATE INDEX accounts_refresh_token_ends_at ON accounts (refresh_token_ends_at) WHERE state = 'linked';

-- The results of logins, for a minute: for the backend that redeems a ticket, or sends an authorization code again. And the
-- logins in browsers that have ended, for eleven minutes, so that each sends one code to Kakao.
CREATE TABLE login_results (
    -- The digest of the ticket, of the code, or of the id of a login that has ended.
    sha256                  bytea       PRIMARY KEY CHECK (length(sha256) = 32),
    -- The digest of the operator key and of the other parameters that the code was sent with: only the same request gets
    -- the result again. NULL for a ticket.
    request_sha256          bytea       CHECK (length(request_sha256) = 32),
    -- The request that exchanges the code. NULL for a ticket.
    claim                   uuid,
    -- Encrypted. NULL while the code is being exchanged, and for a login that has ended.
    result                  bytea,
    ends_at                 timestamptz NOT NULL
);
CREATE INDEX login_results_ends_at ON login_results (ends_at);

-- The users that Kakao has yet to unlink.
CREATE TABLE pending_unlinks (
    user_id                 bigint      PRIMARY KEY,
    requested_at            timestamptz NOT NULL DEFAULT now(),
    attempts                integer     NOT NULL DEFAULT 0,
    next_attempt_at         timestamptz NOT NULL DEFAULT now(),
    -- The lease of the server that calls Kakao now, until `lease_ends_at`.
    lease                   uuid,
    lease_ends_at           timestamptz,
    CONSTRAINT pending_unlinks_lease_check CHECK ((lease IS NULL) = (lease_ends_at IS NULL))
);
CREATE INDEX pending_unlinks_next_attempt_at ON pending_unlinks (next_attempt_at);

-- The users who were unlinked here lately: a server does not take the unlink for lost when PostgreSQL has lost commits (docs/accounts.md).
-- Deleted after a day.
CREATE TABLE requested_unlinks (
    user_id                 bigint      PRIMARY KEY,
    requested_at            timestamptz NOT NULL
);
CREATE INDEX requested_unlinks_requested_at ON requested_unlinks (requested_at);
