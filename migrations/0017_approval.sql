-- Approval of large pushes by a second operator, and pushes to testers.

ALTER TABLE pushes
    DROP CONSTRAINT pushes_state_check,
    ADD CONSTRAINT pushes_state_check CHECK (state IN (
        'proposed', 'scheduled', 'preparing', 'sending', 'done', 'paused', 'canceled', 'expired', 'halted')),
    -- The id of the operator key that created the push; NULL for the key in the settings, and if an earlier version stored it.
    ADD COLUMN created_by_key   uuid,
    -- The users to send to, as counted when the push was created; NULL if there was no need to count them.
    ADD COLUMN counted_users    bigint,
    -- The most users to whom it is sent without a further approval; NULL for any number.
    ADD COLUMN allowed_users    bigint,
    ADD COLUMN approved_at      timestamptz,
    -- The name and the id of the operator key that approved it. The id is NULL for the key in the settings.
    ADD COLUMN approved_by      text,
    ADD COLUMN approved_by_key  uuid,
    -- The name of the operator key that last paused, canceled or rejected it; NULL once it was resumed.
    ADD COLUMN stopped_by       text,
    -- Whether it is sent to `pushes.testers`.
    ADD COLUMN to_testers       boolean NOT NULL DEFAULT false;

-- The few pushes that wait for an operator. The metrics count them.
DROP INDEX pushes_stopped;
CREATE INDEX pushes_stopped ON pushes (state) WHERE state IN ('proposed', 'paused', 'halted');

-- Find the parts of audiences that are still needed.
DROP INDEX pushes_audience_parts;
CREATE INDEX pushes_audience_parts ON pushes (audience_parts_id)
    WHERE audience_parts_id IS NOT NULL
        AND state IN ('proposed', 'scheduled', 'preparing', 'paused', 'halted', 'sending');
DROP INDEX pushes_excluded_parts;
CREATE INDEX pushes_excluded_parts ON pushes (excluded_parts_id)
    WHERE excluded_parts_id IS NOT NULL
        AND state IN ('proposed', 'scheduled', 'preparing', 'paused', 'halted', 'sending');

-- Finds the tests of a message. A hash index stores a digest of the message, and compares the message itself in the table.
CREATE INDEX pushes_tested ON pushes USING hash (message) WHERE to_testers;

-- Returns when a message was last sent to a tester; NULL if it was not, or if the test has been removed.
CREATE FUNCTION message_last_tested_at(given_message text, given_version text) RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT max(started_at)
    FROM pushes
    WHERE to_testers
        AND message = given_message
        AND message_version = given_version
        AND push_users_sent(id) > 0
$$;

-- Returns whether a push waits for an approval: it is proposed, and a day has not passed, or its audience has grown.
CREATE FUNCTION push_awaits_approval(
    state           text,
    created_at      timestamptz,
    expires_at      timestamptz,
    prepared_at     timestamptz,
    -- Without those who are skipped.
    users           bigint,
    allowed_users   bigint
) RETURNS boolean
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT CASE state
            WHEN 'proposed' THEN now() < LEAST(created_at + interval '24 hours', expires_at)
            WHEN 'halted' THEN prepared_at IS NOT NULL AND COALESCE(users > allowed_users, false)
            ELSE false
        END
$$;

-- As before, for pushes that are not approved yet too: they are left out if they are not to be sent later than the push itself,
-- which waits for them.
CREATE OR REPLACE FUNCTION pushes_are_excludable(ids uuid[], begins timestamptz) RETURNS boolean
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT NOT EXISTS (
        SELECT 1
        FROM unnest(ids) AS excluded (id)
        WHERE NOT EXISTS (
            SELECT 1
            FROM pushes
            WHERE pushes.id = excluded.id
                AND removed_at IS NULL
                AND (state NOT IN ('proposed', 'scheduled') OR COALESCE(send_at <= begins, true))
        )
    )
$$;
