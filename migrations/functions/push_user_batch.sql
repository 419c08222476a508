-- Returns the batch of a push's parts that a user is in; NULL if the user is in none.
--
-- A binary search over the numbers of the batches, since the users of a push ascend, within each part and from part to part,
-- for every kind of audience: listed users are stored in ascending order, those of a stored audience too, in parts that are read in
-- order, and those of tags and of everyone are read from the devices by user id. Each step reads the first user of one batch.
-- `ids` is stored uncompressed and apart from its row, so that a step reads only the chunk with that user.
--
-- Numbers between two parts belong to batches that were split from rejected ones. Such a number stands for the last batch of the part
-- before it.
CREATE OR REPLACE FUNCTION push_user_batch(push uuid, wanted bigint) RETURNS integer
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
