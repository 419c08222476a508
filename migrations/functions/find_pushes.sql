-- Returns the ids of up to `maximum` pushes, the latest first. A filter that is NULL, or false, is not applied.
--
-- The filter of the state selects by the state that operators see (`push_shown_state`); `proposed` also selects halted pushes that
-- wait for an approval, since their audience has grown.
CREATE OR REPLACE FUNCTION find_pushes(
    state_filter        text,
    name_prefix         text,
    creator             text,
    since               timestamptz,
    until               timestamptz,
    is_unfinished       boolean,
    -- The last push of the previous page.
    before              uuid,
    maximum             bigint,
    -- The hours for advertising, as in `advertising_ends`.
    hours               text[]
) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE ROWS 100
SET search_path FROM CURRENT
-- The best index depends on the filters, which a cached plan does not know.
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    -- The states that are stored, for the indexes.
    states              text[] := CASE state_filter
            WHEN 'proposed' THEN '{proposed,halted}'
            WHEN 'scheduled' THEN '{scheduled,preparing}'
            ELSE string_to_array(state_filter, ',')
        END;
BEGIN
    RETURN QUERY
    SELECT id
    FROM pushes
    WHERE (states IS NULL OR state = ANY (states))
        -- Other states are stored as they are shown.
        AND (
            state_filter IS NULL
            OR state_filter NOT IN ('proposed', 'scheduled', 'preparing')
            OR push_shown_state(state, kind, to_testers, (SELECT advertising_ends(hours) IS NOT NULL)) = state_filter
            OR state_filter = 'proposed'
                AND push_awaits_approval(state, created_at, expires_at, prepared_at, users - users_skipped, allowed_users)
        )
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
