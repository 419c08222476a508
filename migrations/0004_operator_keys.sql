-- Keys of operators and backends. The first key is a setting and is not stored here. A key itself is shown once and
-- stored nowhere.

CREATE TABLE operator_keys (
    sha256              bytea       PRIMARY KEY CHECK (octet_length(sha256) = 32),
    name                text        NOT NULL,
    scopes              text[]      NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    expires_at          timestamptz,
    revoked_at          timestamptz,
    -- The time of the last use, to about a minute; NULL for never.
    last_used_at        timestamptz
);
