-- Returns whether a push waits for an approval: it is proposed, and a day has not passed, or its audience has grown.
CREATE OR REPLACE FUNCTION push_awaits_approval(
    state           text,
    created_at      timestamptz,
    expires_at      timestamptz,
    prepared_at     timestamptz,
    -- Without those who are skipped.
    users           bigint,
    allowed_users   bigint
) RETURNS boolean
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT CASE state
            WHEN 'proposed' THEN now() < LEAST(created_at + interval '24 hours', expires_at)
            WHEN 'halted' THEN prepared_at IS NOT NULL AND COALESCE(users > allowed_users, false)
            ELSE false
        END
$$;
