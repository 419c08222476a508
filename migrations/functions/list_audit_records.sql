-- Returns up to `maximum` records, the latest first. A filter that is NULL is not applied.
--
-- The id of a record has the time of the server's clock, and `at` that of the database's: up to an hour apart.
CREATE OR REPLACE FUNCTION list_audit_records(
    key                 uuid,
    operation_filter    text,
    object_filter       text,
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
        AND (object_filter IS NULL OR object = object_filter)
        AND (owner IS NULL OR user_id = owner)
        AND (since IS NULL OR at >= since)
        AND (until IS NULL OR at < until)
        AND id >= COALESCE(uuid_v7_floor(since - interval '1 hour'), '00000000-0000-0000-0000-000000000000')
        AND id <= COALESCE(uuid_v7_floor(until + interval '1 hour'), 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        AND id < COALESCE(before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    ORDER BY id DESC
    LIMIT maximum;
END
$$;
