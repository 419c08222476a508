-- Returns those of some users who are in a push, each with the state of the batch, as `push_user` does for one user.
--
-- The parts of the push are found by their first users, which are read once, and each part is read once, however many of the users are in
-- it. `push_user_batch` explains the order of a push's users.
CREATE OR REPLACE FUNCTION push_users(push uuid, wanted bigint[]) RETURNS TABLE (
    user_id             bigint,
    state               text,
    may_repeat          boolean
)
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    -- The parts in their order, each with its first user.
    numbers integer[];
    firsts bigint[];
    -- Whether any batch has a row of its own, which few pushes have.
    has_rows boolean := EXISTS (SELECT FROM push_batches AS own WHERE own.push_id = push);
    -- The part in which the last user was searched for.
    part integer := 0;
    found_part integer;
    part_users integer;
    width integer;
    -- Its users.
    ids bytea;
    key bytea;
    low integer;
    high integer;
    middle integer;
    batch integer;
BEGIN
    SELECT array_agg(given.number ORDER BY given.number),
        array_agg(
            ('x' || lpad(encode(substring(given.ids FOR given.id_bytes), 'hex'), 16, '0'))::bit(64)::bigint
            ORDER BY given.number
        )
    INTO numbers, firsts
    FROM push_parts AS given
    WHERE given.push_id = push;
    IF numbers IS NULL THEN
        -- The only batch of a push, and what it was split into.
        RETURN QUERY
        SELECT DISTINCT item.id, own.state, own.may_repeat
        FROM push_batches AS own
        CROSS JOIN unnest(own.user_ids) AS item (id)
        WHERE own.push_id = push
            AND item.id = ANY (wanted);
        RETURN;
    END IF;
    FOR user_id IN SELECT DISTINCT item FROM unnest(wanted) AS item ORDER BY item LOOP
        found_part := width_bucket(user_id, firsts);
        -- Below the first user of the push.
        CONTINUE WHEN found_part = 0;
        IF found_part <> part THEN
            part := found_part;
            -- Many users of a part are searched for in memory. For few, each step reads a piece of the stored value.
            SELECT given.batch_users, given.id_bytes,
                CASE WHEN cardinality(wanted) > 2 * cardinality(numbers) THEN given.ids || ''::bytea ELSE given.ids END
            INTO part_users, width, ids
            FROM push_parts AS given
            WHERE given.push_id = push
                AND given.number = numbers[part];
        END IF;
        -- An id of more bytes than any of the part.
        CONTINUE WHEN width < 8 AND user_id >> 8 * width > 0;
        key := substring(int8send(user_id) FROM 9 - width);
        low := 0;
        high := octet_length(ids) / width - 1;
        WHILE low < high LOOP
            middle := (low + high + 1) / 2;
            IF substring(ids FROM middle * width + 1 FOR width) <= key THEN
                low := middle;
            ELSE
                high := middle - 1;
            END IF;
        END LOOP;
        CONTINUE WHEN substring(ids FROM low * width + 1 FOR width) <> key;
        batch := numbers[part] + low / part_users;
        state := NULL;
        may_repeat := false;
        IF has_rows THEN
            SELECT own.state, own.may_repeat
            INTO state, may_repeat
            FROM push_batches AS own
            WHERE own.push_id = push
                AND own.number = batch
                AND own.origin IS NULL;
            IF NOT FOUND THEN
                SELECT own.state, own.may_repeat
                INTO state, may_repeat
                FROM push_batches AS own
                WHERE own.push_id = push
                    AND own.origin = batch
                    AND user_id = ANY (own.user_ids);
            END IF;
        END IF;
        IF state IS NULL THEN
            may_repeat := false;
            state := (
                SELECT CASE get_bit(claim.settled, batch - claim.number) WHEN 1 THEN 'sent' ELSE 'sending' END
                FROM (
                    SELECT given.number, given.settled
                    FROM push_claims AS given
                    WHERE given.push_id = push
                        AND given.number <= batch
                    ORDER BY given.number DESC
                    LIMIT 1
                ) AS claim
                WHERE batch < claim.number + length(claim.settled)
            );
            state := COALESCE(state, 'waiting');
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
