-- The users who have opened a push, as their apps report it, and the order of the inbox of a user. docs/opens.md explains both.

-- The users who have opened a push: a row for each, once. It lasts as long as the push.
CREATE TABLE push_opens (
    push_id             uuid        NOT NULL,
    user_id             bigint      NOT NULL,
    -- The time of the first report.
    opened_at           timestamptz NOT NULL DEFAULT now(),

    PRIMARY KEY (push_id, user_id)
);

-- Finds the rows of a user who is erased.
CREATE INDEX push_opens_user_id ON push_opens (user_id);

-- The numbers of users who have opened a push. They are spread over a few rows, as `push_counts` is.
CREATE TABLE push_open_counts (
    push_id             uuid        NOT NULL,
    slot                integer     NOT NULL,
    users               bigint      NOT NULL,

    PRIMARY KEY (push_id, slot)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The pushes that have begun, in the order of an inbox. Those to a single user are found by the user, so that the search for a user
-- reads only those to several. In a database with millions of pushes, create both indexes with CONCURRENTLY before the update.
CREATE INDEX IF NOT EXISTS pushes_begun_to_one ON pushes ((user_ids[1]), started_at, id)
    WHERE cardinality(user_ids) = 1
        AND started_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS pushes_begun_to_several ON pushes (started_at, id)
    WHERE cardinality(user_ids) IS DISTINCT FROM 1
        AND started_at IS NOT NULL;

-- CREATE INDEX CONCURRENTLY that fails leaves an invalid index, which IF NOT EXISTS takes for a valid one.
DO $$
BEGIN
    IF EXISTS (
        SELECT FROM pg_index
        WHERE indexrelid IN ('pushes_begun_to_one'::regclass, 'pushes_begun_to_several'::regclass)
            AND NOT indisvalid
    ) THEN
        RAISE EXCEPTION 'An index of pushes is invalid, or is still being created. Wait for CREATE INDEX CONCURRENTLY, or drop the index.';
    END IF;
END
$$;
