-- The users of a push lie in parts of many batches each: preparing stores a row for fifty thousand users, and a batch has a row of its
-- own once a server has claimed it.

CREATE TABLE push_parts (
    push_id             uuid        NOT NULL,
    -- Of its first batch.
    number              integer     NOT NULL,
    -- Whole batches, but for the last one of a part.
    batch_users         integer     NOT NULL CHECK (batch_users BETWEEN 1 AND 100),
    batches             integer     NOT NULL CHECK (batches > 0),
    -- How many of its batches have been claimed, from the first on.
    claimed             integer     NOT NULL DEFAULT 0 CHECK (claimed BETWEEN 0 AND batches),
    -- Eight bytes a user, the first one the highest: a claim takes its own out of the middle without looking at the others, and nobody
    -- has to make numbers of them on the way.
    user_ids            bytea       NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),

    PRIMARY KEY (push_id, number),
    CHECK (octet_length(user_ids) BETWEEN 8 * ((batches - 1) * batch_users + 1) AND 8 * batches * batch_users)
) WITH (toast_tuple_target = 128, fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Written once, so kept apart from what each claim writes anew; as it is, so that a part of it can be read.
ALTER TABLE push_parts ALTER COLUMN user_ids SET STORAGE EXTERNAL;

-- Nobody searches these lists, and to count what is in them takes ANALYZE seconds.
ALTER TABLE push_parts ALTER COLUMN user_ids SET STATISTICS 0;
ALTER TABLE push_batches ALTER COLUMN user_ids SET STATISTICS 0;
-- Batches are found by their keys, whatever the planner knows of the rest.
ALTER TABLE push_batches SET (autovacuum_analyze_scale_factor = 1);
ALTER TABLE audience_parts ALTER COLUMN user_ids SET STATISTICS 0;
ALTER TABLE pushes ALTER COLUMN user_ids SET STATISTICS 0;

-- Of which there is something left to claim.
CREATE INDEX push_parts_unclaimed ON push_parts (push_id, number) WHERE claimed < batches;

-- NULL for those of its part: only what came of a refused batch, and the batch of a push that is no larger, hold users of their own.
ALTER TABLE push_batches ALTER COLUMN user_ids DROP NOT NULL;

-- The users of a batch that holds none of its own.
CREATE FUNCTION push_part_users(push uuid, batch integer) RETURNS bigint[]
LANGUAGE sql STABLE
AS $$
    SELECT ARRAY(
        SELECT ('x' || encode(substring(own FROM 8 * place + 1 FOR 8), 'hex'))::bit(64)::bigint
        FROM generate_series(0, octet_length(own) / 8 - 1) AS place
        ORDER BY place
    )
    FROM (
        SELECT substring(user_ids FROM 8 * batch_users * (batch - number) + 1 FOR 8 * batch_users) AS own
        FROM push_parts
        WHERE push_id = push
            AND number <= batch
        ORDER BY number DESC
        LIMIT 1
    ) AS part
$$;

-- Preparing a push to everyone asks who has a phone that counts: with this it reads the index and not the devices.
CREATE UNIQUE INDEX devices_key ON devices (user_id, device_id, push_type) INCLUDE (withdrawn);
ALTER TABLE devices
    DROP CONSTRAINT devices_pkey,
    ADD CONSTRAINT devices_pkey PRIMARY KEY USING INDEX devices_key;
