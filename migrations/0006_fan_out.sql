-- Pushes of any size: prepared from their audience step by step, sent under leases, counted as they go.

ALTER TABLE pushes
    -- The users of an audience that was named in the request itself, in ascending order.
    ADD COLUMN user_ids         bigint[],
    -- The phones that the message speaks to; a user who has none of them is skipped. Empty: whoever is named is sent it.
    ADD COLUMN platforms        text[]      NOT NULL DEFAULT '{}',
    -- The most users in a batch: 100, or fewer for a push that is to be sent slowly.
    ADD COLUMN batch_users      integer     NOT NULL DEFAULT 100 CHECK (batch_users BETWEEN 1 AND 100),
    -- How far the audience has become batches: a user's id, or a place in the list of users or of parts.
    ADD COLUMN prepared_up_to   bigint      NOT NULL DEFAULT 0,
    -- When all of it had.
    ADD COLUMN prepared_at      timestamptz,
    -- So far.
    ADD COLUMN users            bigint      NOT NULL DEFAULT 0,
    ADD COLUMN users_skipped    bigint      NOT NULL DEFAULT 0,
    -- The number of the next batch; one less is the number of batches.
    ADD COLUMN next_number      integer     NOT NULL DEFAULT 1,
    -- The batch in which Kakao first refused the message: until somebody in it has been sent it, nobody else is tried.
    ADD COLUMN probe            integer,
    -- What may be sent now of so many users a second, and when that was so.
    ADD COLUMN rate_users       float8      NOT NULL DEFAULT 0,
    ADD COLUMN rate_at          timestamptz NOT NULL DEFAULT now();

-- A push of before was one batch of those whom it named.
UPDATE pushes AS push
SET prepared_at = push.created_at,
    next_number = 2,
    users = (SELECT sum(cardinality(user_ids)) FROM push_batches WHERE push_id = push.id);

DROP INDEX pushes_unfinished;
CREATE INDEX pushes_unfinished ON pushes (send_at) WHERE state IN ('scheduled', 'preparing', 'sending');
CREATE INDEX pushes_finished ON pushes (finished_at) WHERE finished_at IS NOT NULL;

-- A server that sends holds a lease and renews it while it lives; its batches are taken over when the lease has ended.
CREATE TABLE push_leases (
    id                  uuid        PRIMARY KEY,
    ends_at             timestamptz NOT NULL
);

DROP INDEX push_batches_waiting;
DROP INDEX push_batches_sending;

ALTER TABLE push_batches
    ADD COLUMN users            integer     NOT NULL DEFAULT 0,
    -- The batch that Kakao refused and that this one is a part of.
    ADD COLUMN origin           integer,
    DROP COLUMN lease_ends_at,
    -- Written once and read once, so kept apart from what each attempt writes anew.
    ALTER COLUMN user_ids SET STORAGE EXTERNAL,
    -- Claimed and finished within a second: dead rows are cleaned up by number, not by share of a growing table.
    SET (
        toast_tuple_target = 128,
        autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_insert_scale_factor = 0,
        autovacuum_vacuum_insert_threshold = 200000,
        autovacuum_vacuum_cost_delay = 0
    );

UPDATE push_batches SET users = cardinality(user_ids);
UPDATE push_batches SET state = 'waiting', lease = NULL, may_repeat = true WHERE state = 'sending';

CREATE INDEX push_batches_waiting ON push_batches (push_id, next_attempt_at, number) WHERE state = 'waiting';
CREATE INDEX push_batches_sending ON push_batches (lease) WHERE state = 'sending';
CREATE INDEX push_batches_origin ON push_batches (push_id, origin) WHERE origin IS NOT NULL;
-- The few that an operator asks for among very many.
CREATE INDEX push_batches_unsent ON push_batches (push_id, state, number) WHERE state IN ('failed', 'uncertain');

-- What became of the users and batches of a push, in a few rows, so that servers that count do not wait for each other.
CREATE TABLE push_counts (
    push_id             uuid        NOT NULL,
    slot                integer     NOT NULL,
    state               text        NOT NULL CHECK (state IN ('sent', 'failed', 'uncertain')),
    users               bigint      NOT NULL,
    batches             bigint      NOT NULL,

    PRIMARY KEY (push_id, slot, state)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

INSERT INTO push_counts (push_id, slot, state, users, batches)
SELECT push_id, 0, state, sum(users), count(*)
FROM push_batches
WHERE state IN ('sent', 'failed', 'uncertain')
GROUP BY push_id, state;

-- What a request with an `Idempotency-Key` was, and what it was answered.
CREATE TABLE idempotency_keys (
    key                 text        PRIMARY KEY,
    sha256              bytea       NOT NULL CHECK (octet_length(sha256) = 32),
    push_id             uuid        NOT NULL,
    answer              bytea       NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX idempotency_keys_push_id ON idempotency_keys (push_id);
