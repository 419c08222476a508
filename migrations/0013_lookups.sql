-- Looking up the pushes of a user and the users of a push. No row is stored for a user: a user is found in the packed parts.

-- The name of the operator key that created the push; NULL if an earlier version stored it.
ALTER TABLE pushes ADD COLUMN created_by text;

-- Find the few pushes that an operator asks for among very many.
CREATE INDEX pushes_name ON pushes (name COLLATE "C", id) WHERE name IS NOT NULL;
CREATE INDEX pushes_created_by ON pushes (created_by, id) WHERE created_by IS NOT NULL;
CREATE INDEX pushes_open ON pushes (id) WHERE finished_at IS NULL;

-- Returns the ids of up to `maximum` pushes, the latest first. A filter that is NULL, or false, is not applied.
CREATE FUNCTION find_pushes(
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

-- The users of finished batches with `may_repeat`. A batch that is sent at its first attempt, as nearly every one is, adds none.
ALTER TABLE push_counts ADD COLUMN may_repeat bigint NOT NULL DEFAULT 0;

INSERT INTO push_counts (push_id, slot, state, users, batches, may_repeat)
SELECT push_id, -3, state, 0, 0, sum(users)
FROM push_batches
WHERE may_repeat
    AND state IN ('sent', 'failed', 'uncertain')
GROUP BY push_id, state;

-- Returns the batch of a push's parts that a user is in; NULL if the user is in none.
--
-- A binary search over the numbers of the batches, since the users of a push ascend, within each part and from part to part,
-- for every kind of audience: listed users are stored in ascending order, those of a stored audience too, in parts that are read in
-- order, and those of tags and of everyone are read from the devices by user id. Each step reads the first user of one batch.
-- `ids` is stored uncompressed and apart from its row, so that a step reads only the chunk with that user.
--
-- Numbers between two parts belong to batches that were split from rejected ones. Such a number stands for the last batch of the part
-- before it.
CREATE FUNCTION push_user_batch(push uuid, wanted bigint) RETURNS integer
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    low integer := 0;
    high integer := (SELECT number + batches - 1 FROM push_parts WHERE push_id = push ORDER BY number DESC LIMIT 1);
    middle integer;
    batch integer;
    is_at_or_before boolean;
    found_batch integer;
BEGIN
    WHILE low < high LOOP
        middle := (low + high + 1) / 2;
        SELECT part.batch,
            -- The first user of the batch, in eight bytes, which compare like the numbers.
            substring('\x00000000000000'::bytea FOR 8 - id_bytes)
                || substring(ids FROM id_bytes * batch_users * (part.batch - number) + 1 FOR id_bytes)
                <= int8send(wanted)
        INTO batch, is_at_or_before
        FROM (
            SELECT number, ids, id_bytes, batch_users, LEAST(middle, number + batches - 1) AS batch
            FROM push_parts
            WHERE push_id = push
                AND number <= middle
            ORDER BY number DESC
            LIMIT 1
        ) AS part;
        IF is_at_or_before THEN
            low := middle;
            found_batch := batch;
        ELSE
            high := batch - 1;
        END IF;
    END LOOP;
    RETURN CASE WHEN wanted = ANY (push_part_users(push, found_batch)) THEN found_batch END;
END
$$;

-- Returns the batch that a user of a push is in, with its result; no row if the user is in none.
CREATE FUNCTION push_user(push uuid, wanted bigint) RETURNS TABLE (
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
