-- Returns the ids of up to `maximum` pushes, the latest first. A filter that is NULL, or false, is not applied.
CREATE OR REPLACE FUNCTION find_pushes(
    state_filter        text,
    name_prefix         text,
    creator             text,
    since               timestamptz,
    until               timestamptz,
    is_unfinished       boolean,
    -- The last push of the previous page.
    before              uuid,
    maximum             bigint
) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE ROWS 100
SET search_path FROM CURRENT
-- The best index depends on the filters, which a cached plan does not know.
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT id
    FROM pushes
    WHERE (state_filter IS NULL OR state = state_filter)
        -- The names from the prefix itself to the prefix with the last of all characters.
        AND (name_prefix IS NULL OR name COLLATE "C" >= name_prefix AND name COLLATE "C" <= name_prefix || chr(1114111))
        AND (creator IS NULL OR created_by = creator)
        AND (since IS NULL OR created_at >= since)
        AND (until IS NULL OR created_at < until)
        AND (NOT is_unfinished OR finished_at IS NULL)
        -- An id is made just before its push is created.
        AND id >= COALESCE(uuid_v7_floor(since - interval '1 minute'), '00000000-0000-0000-0000-000000000000')
        AND id <= COALESCE(uuid_v7_floor(until + interval '1 minute'), 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        AND id < COALESCE(before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    ORDER BY id DESC
    LIMIT maximum;
END
$$;
