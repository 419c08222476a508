-- The users of a push lie in parts of many batches each: preparing stores a row for twenty thousand users, and a batch has a row of its
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
    user_ids            bigint[]    NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),

    PRIMARY KEY (push_id, number),
    CHECK (cardinality(user_ids) BETWEEN (batches - 1) * batch_users + 1 AND batches * batch_users)
) WITH (toast_tuple_target = 128, fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

ALTER TABLE push_parts
    -- Written once, so kept apart from what each claim writes anew.
    ALTER COLUMN user_ids SET STORAGE EXTERNAL,
    -- Nobody searches these lists, and to count what is in them takes ANALYZE seconds.
    ALTER COLUMN user_ids SET STATISTICS 0;
ALTER TABLE push_batches ALTER COLUMN user_ids SET STATISTICS 0;
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
    SELECT user_ids[(batch - number) * batch_users + 1:(batch - number + 1) * batch_users]
    FROM push_parts
    WHERE push_id = push
        AND number <= batch
    ORDER BY number DESC
    LIMIT 1
$$;

-- Preparing a push to everyone asks who has a phone that counts: with this it reads the index and not the devices.
CREATE UNIQUE INDEX devices_key ON devices (user_id, device_id, push_type) INCLUDE (withdrawn);
ALTER TABLE devices
    DROP CONSTRAINT devices_pkey,
    ADD CONSTRAINT devices_pkey PRIMARY KEY USING INDEX devices_key;
