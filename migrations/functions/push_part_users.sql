-- Returns the users of a batch of a part.
CREATE OR REPLACE FUNCTION push_part_users(push uuid, batch integer) RETURNS bigint[]
LANGUAGE sql STABLE
-- A function with a setting is not inlined. This one is called only for batches that are retried, each of which is read
-- by its key.
SET search_path FROM CURRENT
AS $$
    SELECT ARRAY(
        SELECT ('x' || lpad(encode(substring(own FROM id_bytes * place + 1 FOR id_bytes), 'hex'), 16, '0'))::bit(64)::bigint
        FROM generate_series(0, octet_length(own) / id_bytes - 1) AS place
        ORDER BY place
    )
    FROM (
        SELECT id_bytes, substring(ids FROM id_bytes * batch_users * (batch - number) + 1 FOR id_bytes * batch_users) AS own
        FROM push_parts
        WHERE push_id = push
            AND number <= batch
        ORDER BY number DESC
        LIMIT 1
    ) AS part
$$;
