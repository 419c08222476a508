-- Who did what: ids of operator keys, and the audit log.

-- Names keys in records. A name may belong to several keys, and the SHA-256 is not shown.
ALTER TABLE operator_keys ADD COLUMN id uuid NOT NULL DEFAULT gen_random_uuid();

CREATE UNIQUE INDEX operator_keys_id ON operator_keys (id);

-- The audit log: what operators have changed, downloaded and looked up.
CREATE TABLE audit_records (
    -- UUID version 7. It sorts by time, so that lists are paged by it.
    id                  uuid        PRIMARY KEY,
    at                  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The operator key: zeros for the key in the settings, NULL for a command on the server's machine.
    key_id              uuid,
    key_name            text        NOT NULL,
    address             text,
    -- The operation as the OpenAPI document names it.
    operation           text        NOT NULL,
    -- The id or the name of what the operation was about, other than a user.
    object              text,
    user_id             bigint,
    -- The reason that the operator gave.
    reason              text,
    request_id          text
);

CREATE INDEX audit_records_user_id ON audit_records (user_id, id) WHERE user_id IS NOT NULL;
CREATE INDEX audit_records_key_id ON audit_records (key_id, id);
CREATE INDEX audit_records_operation ON audit_records (operation, id);

-- Returns up to `maximum` records, the latest first. A filter that is NULL is not applied.
CREATE FUNCTION find_audit_records(
    key                 uuid,
    operation_filter    text,
    owner               bigint,
    since               timestamptz,
    until               timestamptz,
    -- The last record of the previous page.
    before              uuid,
    maximum             bigint
) RETURNS SETOF audit_records
LANGUAGE plpgsql STABLE ROWS 100
SET search_path FROM CURRENT
-- The best index depends on the filters, which a cached plan does not know.
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT *
    FROM audit_records
    WHERE (key IS NULL OR key_id = key)
        AND (operation_filter IS NULL OR operation = operation_filter)
        AND (owner IS NULL OR user_id = owner)
        AND (since IS NULL OR at >= since)
        AND (until IS NULL OR at < until)
        -- An id is made just before its record is stored.
        AND id >= COALESCE(uuid_v7_floor(since - interval '1 minute'), '00000000-0000-0000-0000-000000000000')
        AND id <= COALESCE(uuid_v7_floor(until + interval '1 minute'), 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        AND id < COALESCE(before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    ORDER BY id DESC
    LIMIT maximum;
END
$$;

-- The name of the operator key that last registered or deregistered a device; NULL for its app.
ALTER TABLE devices ADD COLUMN changed_by text;

-- The name of the operator key that created a message.
ALTER TABLE messages ADD COLUMN created_by text;
