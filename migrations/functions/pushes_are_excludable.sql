-- Returns whether the users of all these pushes can be left out of a push that begins at a time: each push exists, with its
-- users, and is not scheduled for later.
--
-- A push that is not approved yet is left out too if it is not to be sent later than the push itself, which waits for it.
CREATE OR REPLACE FUNCTION pushes_are_excludable(ids uuid[], begins timestamptz) RETURNS boolean
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT NOT EXISTS (
        SELECT 1
        FROM unnest(ids) AS excluded (id)
        WHERE NOT EXISTS (
            SELECT 1
            FROM pushes
            WHERE pushes.id = excluded.id
                AND removed_at IS NULL
                AND (state NOT IN ('proposed', 'scheduled') OR COALESCE(send_at <= begins, true))
        )
    )
$$;
