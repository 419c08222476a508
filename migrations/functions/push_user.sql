-- Returns the batch that a user of a push is in, with its result; no row if the user is in none.
CREATE OR REPLACE FUNCTION push_user(push uuid, wanted bigint) RETURNS TABLE (
    batch               integer,
    state               text,
    attempts            integer,
    may_repeat          boolean,
    kakao_status        integer,
    kakao_code          integer,
    kakao_message       text,
    finished_at         timestamptz
)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH place AS MATERIALIZED (
        SELECT push_user_batch(push, wanted) AS number
    )
    SELECT found.number, found.state, found.attempts, found.may_repeat, found.kakao_status, found.kakao_code,
        found.kakao_message, found.finished_at
    FROM (
        -- The batch with a row of its own, or the only batch of a push, which has no parts.
        SELECT 1 AS priority, own.number, own.state, own.attempts, own.may_repeat, own.kakao_status, own.kakao_code,
            own.kakao_message, own.finished_at
        FROM place
        JOIN push_batches AS own ON own.push_id = push AND own.number = COALESCE(place.number, 1)
        WHERE own.origin IS NULL
            AND (wanted = ANY (own.user_ids) OR own.user_ids IS NULL AND place.number IS NOT NULL)
        UNION ALL
        -- The part of a batch that Kakao rejected.
        SELECT 1, own.number, own.state, own.attempts, own.may_repeat, own.kakao_status, own.kakao_code,
            own.kakao_message, own.finished_at
        FROM place
        JOIN push_batches AS own ON own.push_id = push AND own.origin = COALESCE(place.number, 1)
        WHERE wanted = ANY (own.user_ids)
        UNION ALL
        -- A batch at its first attempt, or one that was sent at it.
        SELECT 2, place.number, CASE get_bit(claim.settled, place.number - claim.number) WHEN 1 THEN 'sent' ELSE 'sending' END,
            1, false, CASE get_bit(claim.settled, place.number - claim.number) WHEN 1 THEN 200 END, NULL, NULL,
            CASE get_bit(claim.settled, place.number - claim.number) WHEN 1 THEN claim.finished_at END
        FROM place
        CROSS JOIN LATERAL (
            SELECT number, settled, finished_at
            FROM push_claims
            WHERE push_id = push
                AND number <= place.number
            ORDER BY number DESC
            LIMIT 1
        ) AS claim
        WHERE place.number < claim.number + length(claim.settled)
        UNION ALL
        -- A batch that is not claimed yet.
        SELECT 3, place.number, 'waiting', 0, false, NULL, NULL, NULL, NULL
        FROM place
        WHERE place.number IS NOT NULL
    ) AS found
    ORDER BY found.priority
    LIMIT 1
$$;
