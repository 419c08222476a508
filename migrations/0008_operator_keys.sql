-- Keys of operators and backends. The first key is a setting and is not stored here. A key itself is shown once and
-- stored nowhere.
CREATE TABLE operator_keys (
    sha256              bytea       PRIMARY KEY CHECK (octet_length(sha256) = 32),
    -- Names the key in records. A name may belong to several keys, and the SHA-256 is not shown.
    id                  uuid        NOT NULL DEFAULT gen_random_uuid(),
    name                text        NOT NULL,
    scopes              text[]      NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    expires_at          timestamptz,
    revoked_at          timestamptz,
    -- The time of the last use, to about a minute; NULL for never.
    last_used_at        timestamptz
);

CREATE UNIQUE INDEX operator_keys_id ON operator_keys (id);
