-- Partitions link_callbacks by the hash of its primary key, while servers run: see docs/scaling.md. Run by the owner of the tables:
--
--   psql --quiet "$DATABASE_URL" --set partitions=8 --file deploy/partition-link-callbacks.sql
--
-- The rows are copied into a new table, to which a trigger passes on every later change. Then the new table takes the place of the old
-- one, in one transaction. This needs free disk for the whole table once more. If it is interrupted, run it again: it begins anew. These
-- two statements give it up: DROP FUNCTION copy_link_callback CASCADE; DROP TABLE link_callbacks_new;
-- Apply no migration meanwhile.
\set ON_ERROR_STOP on
\if :{?partitions} \else \set partitions 8 \endif

-- A statement that waits for a lock lets no later one pass. Callbacks wait for at most 2 s before they go to the journal.
SET lock_timeout = '2s';
SET statement_timeout = 0;
SET client_min_messages = warning;
-- By the index of ids, a step reads and locks only its own rows.
SET enable_seqscan = off;

\echo Creating the partitions
BEGIN;
-- What an interrupted run has left. Its trigger goes first.
DROP FUNCTION IF EXISTS copy_link_callback CASCADE;
DROP TABLE IF EXISTS link_callbacks_new;

CREATE TABLE link_callbacks_new (LIKE link_callbacks INCLUDING ALL EXCLUDING INDEXES, CONSTRAINT link_callbacks_new_pkey PRIMARY KEY (key))
PARTITION BY HASH (key);
SELECT format('CREATE TABLE link_callbacks_%s PARTITION OF link_callbacks_new FOR VALUES WITH (MODULUS %s, REMAINDER %1$s)', number, :partitions)
FROM generate_series(0, :partitions - 1) AS number
\gexec
-- The indexes of migrations/0003_callbacks.sql.
CREATE INDEX link_callbacks_new_id ON link_callbacks_new (id);
CREATE INDEX link_callbacks_new_stored_at ON link_callbacks_new USING brin (stored_at);
CREATE INDEX link_callbacks_new_share ON link_callbacks_new (share_id, id) WHERE share_id IS NOT NULL;

-- Of a role that may change rows and owns nothing (docs/deployment.md), too.
CREATE FUNCTION copy_link_callback() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM link_callbacks_new WHERE key = OLD.key;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO link_callbacks_new SELECT NEW.*;
    END IF;
    RETURN NULL;
END
$$;
-- Waits for the transactions that have written without it.
CREATE TRIGGER link_callbacks_copied AFTER INSERT OR UPDATE OR DELETE ON link_callbacks
FOR EACH ROW EXECUTE FUNCTION copy_link_callback();
COMMIT;

\echo Copying the rows
-- Rows that are inserted after the trigger was created are copied by it. The lock keeps a row from being changed or deleted between its
-- reading and its copy; retention skips it meanwhile.
DO $$
DECLARE
    last uuid := '00000000-0000-0000-0000-000000000000';
    until uuid := (SELECT id FROM link_callbacks ORDER BY id DESC LIMIT 1);
BEGIN
    LOOP
        WITH step AS (
            SELECT *
            FROM link_callbacks
            WHERE id > last
                AND id <= until
            ORDER BY id
            LIMIT 5000
            FOR SHARE
        ),
        copied AS (
            INSERT INTO link_callbacks_new
            SELECT *
            FROM step
            ON CONFLICT (key) DO NOTHING
        )
        SELECT (SELECT id FROM step ORDER BY id DESC LIMIT 1) INTO last;
        EXIT WHEN last IS NULL;
        COMMIT;
        -- Leaves the disk to the servers.
        PERFORM pg_sleep(0.02);
    END LOOP;
END
$$;

\echo Comparing the tables
RESET enable_seqscan;
-- One snapshot: a transaction that has changed a row has changed it in both.
DO $$
BEGIN
    IF EXISTS (
        SELECT FROM link_callbacks AS old WHERE NOT EXISTS (SELECT FROM link_callbacks_new AS new WHERE new.key = old.key AND new = old)
        UNION ALL
        SELECT FROM link_callbacks_new AS new WHERE NOT EXISTS (SELECT FROM link_callbacks AS old WHERE old.key = new.key)
    ) THEN
        RAISE EXCEPTION 'The tables differ. Nothing was changed: run this file again.';
    END IF;
END
$$;
ANALYZE link_callbacks_new;

\echo Replacing the table
DO $$
DECLARE
    name text;
BEGIN
    LOOP
        BEGIN
            LOCK TABLE link_callbacks IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            RAISE WARNING 'Another session uses the table: trying again.';
            PERFORM pg_sleep(1);
        END;
    END LOOP;
    DROP TABLE link_callbacks;
    DROP FUNCTION copy_link_callback;
    ALTER TABLE link_callbacks_new RENAME TO link_callbacks;
    FOREACH name IN ARRAY '{pkey,id,stored_at,share}'::text[] LOOP
        EXECUTE format('ALTER INDEX link_callbacks_new_%s RENAME TO link_callbacks_%1$s', name);
    END LOOP;
END
$$;
