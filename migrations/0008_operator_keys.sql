-- Keys of operators and backends. The first key is a setting and is not stored here. A key itself is shown once and
-- stored nowhere.
CREATE TABLE operator_keys (
    sha256              bytea       PRIMARY KEY CHECK (octet_length(sha256) = 32),
    -- Names the key in records. A name may belong to several keys, and the SHA-256 is not shown.
    id                  uuid        NOT NULL DEFAULT gen_random_uuid(),
    name                text        NOT NULL,
    scopes              text[]      NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    -- The name of the key that created this one, or the user on the server's machine.
    created_by          text,
    -- The id of the key that created this one; zeros for the key in the settings, NULL for a command on the server's machine.
    created_by_key      uuid,
    -- The `Idempotency-Key` of the request that created the key; `request_sha256` is the SHA-256 of the request. The response,
    -- which has the key, is not stored.
    idempotency_key     text,
    request_sha256      bytea       CHECK ((request_sha256 IS NULL) = (idempotency_key IS NULL)),
    expires_at          timestamptz,
    revoked_at          timestamptz,
    -- The time of the last use, to about a minute; NULL for never.
    last_used_at        timestamptz
);

CREATE UNIQUE INDEX operator_keys_id ON operator_keys (id);

CREATE UNIQUE INDEX operator_keys_request ON operator_keys (created_by_key, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- The sessions of operators who have signed in to the page with a key. The cookie of a session is stored nowhere.
CREATE TABLE operator_sessions (
    sha256              bytea       PRIMARY KEY CHECK (octet_length(sha256) = 32),
    -- Names the session in lists.
    id                  uuid        NOT NULL,
    -- Zeros for the key in the settings.
    key_id              uuid        NOT NULL,
    key_sha256          bytea       NOT NULL CHECK (octet_length(key_sha256) = 32),
    -- The address from which the operator has signed in.
    address             text        NOT NULL,
    started_at          timestamptz NOT NULL DEFAULT now(),
    ends_at             timestamptz NOT NULL
);

CREATE INDEX operator_sessions_key ON operator_sessions (key_id);

CREATE INDEX operator_sessions_ends_at ON operator_sessions (ends_at);
