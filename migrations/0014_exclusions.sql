-- Leaving users out of a push: `except` of `POST /v1/pushes`.

ALTER TABLE pushes
    -- `except` as given; NULL without one.
    ADD COLUMN exclusion            jsonb,
    -- The parts of the stored audience that is left out, even if the audience is replaced meanwhile.
    ADD COLUMN excluded_parts_id    uuid,
    -- The earlier pushes whose users are left out.
    ADD COLUMN excluded_pushes      uuid[];

-- Finds the parts of audiences that are still needed.
CREATE INDEX pushes_excluded_parts ON pushes (excluded_parts_id)
    WHERE excluded_parts_id IS NOT NULL
        AND state IN ('scheduled', 'preparing', 'paused', 'halted', 'sending');

-- The few pushes that still need their excluded pushes.
CREATE INDEX pushes_excluding ON pushes (id)
    WHERE excluded_pushes IS NOT NULL
        AND prepared_at IS NULL
        AND finished_at IS NULL;

-- Returns whether the users of all these pushes can be left out of a push that begins at a time: each push exists, with its
-- users, and is not scheduled for later.
CREATE FUNCTION pushes_are_excludable(ids uuid[], begins timestamptz) RETURNS boolean
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
                AND (state <> 'scheduled' OR send_at <= begins)
        )
    )
$$;

-- Returns whether it is known whom a push has reached and is still to reach: its audience is prepared or, if it was canceled or
-- has expired, nothing of it is in flight. A claim that began before that end may be committed until the time limit of
-- its statement (5 s), counted from the end of the statement that stored the end, which has the same limit.
CREATE FUNCTION push_is_settled(push uuid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT CASE
            WHEN state = 'done' THEN true
            WHEN ended_at IS NULL THEN prepared_at IS NOT NULL
            ELSE ended_at < now() - interval '10 s'
                AND NOT EXISTS (SELECT 1 FROM push_claims WHERE push_id = push AND lease IS NOT NULL)
                AND NOT EXISTS (SELECT 1 FROM push_batches WHERE push_id = push AND state = 'sending')
        END
    FROM pushes
    CROSS JOIN LATERAL (
        SELECT LEAST(finished_at, CASE WHEN expires_at <= now() THEN expires_at END) AS ended_at
    ) AS times
    WHERE id = push
$$;

-- Returns those excluded pushes that a push has to wait for.
CREATE FUNCTION push_waits_for(excluded_pushes uuid[], prepared_at timestamptz, finished_at timestamptz) RETURNS uuid[]
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT ARRAY(
        SELECT id
        FROM unnest(excluded_pushes) AS excluded (id)
        WHERE prepared_at IS NULL
            AND finished_at IS NULL
            AND NOT push_is_settled(id)
    )
$$;

-- Finds the parts of an audience that have the users of a page. The users of an audience ascend from part to part.
CREATE INDEX audience_parts_first_user ON audience_parts (parts_id, (user_ids[1]));
