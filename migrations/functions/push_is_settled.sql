-- Returns whether it is known whom a push has reached and is still to reach: its audience is prepared or, if it was canceled or
-- has expired, nothing of it is in flight. A claim that began before that end may be committed until the time limit of
-- its statement (5 s), counted from the end of the statement that stored the end, which has the same limit.
CREATE OR REPLACE FUNCTION push_is_settled(push uuid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT CASE
            WHEN state = 'done' THEN true
            WHEN ended_at IS NULL THEN prepared_at IS NOT NULL
            WHEN started_at IS NULL THEN true
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
