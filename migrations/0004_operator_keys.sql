-- Keys of operators and backends beside the first one, which is a setting. A key itself is shown once and stored nowhere.

CREATE TABLE operator_keys (
    sha256              bytea       PRIMARY KEY CHECK (octet_length(sha256) = 32),
    name                text        NOT NULL,
    scopes              text[]      NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    expires_at          timestamptz,
    revoked_at          timestamptz,
    -- To about a minute; NULL for never.
    last_used_at        timestamptz
);
