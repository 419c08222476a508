-- Pushes: prepared from their audience step by step, sent in batches of at most 100 users under leases, counted as they go. The states are
-- drawn in docs/architecture.md; docs/delivery.md says what is guaranteed.

CREATE TABLE pushes (
    id                  uuid        PRIMARY KEY,
    name                text,
    state               text        NOT NULL CHECK (state IN (
                            'scheduled', 'preparing', 'sending', 'done', 'paused', 'canceled', 'expired', 'halted')),
    -- Why it is halted, in words for the operator.
    reason              text,
    audience            jsonb       NOT NULL,
    -- The users of an audience that was named in the request itself, in ascending order.
    user_ids            bigint[],
    -- The parts that a push is prepared from, also when its audience has been replaced meanwhile; NULL when it has others to go to.
    audience_parts_id   uuid,
    -- The phones that the message speaks to; a user who has none of them is skipped. Empty: whoever is named is sent it.
    platforms           text[]      NOT NULL DEFAULT '{}',
    -- Kakao's `push_message`, as text: what the operator wrote is what Kakao gets.
    message             text        NOT NULL,
    -- The version of Kakao's Push API in whose words the message is written.
    message_version     text        NOT NULL CHECK (message_version IN ('v1', 'v2')),
    bypass              boolean     NOT NULL DEFAULT false,
    delivery            text        NOT NULL DEFAULT 'at_least_once'
                            CHECK (delivery IN ('at_least_once', 'at_most_once')),
    users_per_second    integer,
    send_at             timestamptz,
    expires_at          timestamptz,
    created_at          timestamptz NOT NULL DEFAULT now(),
    started_at          timestamptz,
    finished_at         timestamptz,

    -- The most users in a batch: 100, or fewer for a push that is to be sent slowly.
    batch_users         integer     NOT NULL DEFAULT 100 CHECK (batch_users BETWEEN 1 AND 100),
    -- How far the audience has become batches: a user's id, or a place in the list of users or of parts.
    prepared_up_to      bigint      NOT NULL DEFAULT 0,
    -- When all of it had.
    prepared_at         timestamptz,
    -- So far.
    users               bigint      NOT NULL DEFAULT 0,
    users_skipped       bigint      NOT NULL DEFAULT 0,
    -- The number of the next batch; one less is the number of batches.
    next_number         integer     NOT NULL DEFAULT 1,

    -- The batch in which Kakao first refused the message: until somebody in it has been sent it, nobody else is tried.
    probe               integer,
    -- The users sent when `probe` was set: once there are more, Kakao accepts the message and the probe is over.
    probe_sent          bigint      NOT NULL DEFAULT 0,
    -- What may be sent now of so many users a second, and when that was so.
    rate_users          float8      NOT NULL DEFAULT 0,
    rate_at             timestamptz NOT NULL DEFAULT now(),
    -- While a retry is being prepared: the batches with numbers above `retry_position` and below `retry_end` have yet to be reset.
    retry_position      integer,
    retry_end           integer,
    retry_uncertain     boolean     NOT NULL DEFAULT false,
    -- Retention deletes its batches: from then on it cannot be retried.
    removed_at          timestamptz,

    CONSTRAINT pushes_retry_check CHECK ((retry_position IS NULL) = (retry_end IS NULL))
);

-- Nobody searches these lists, and to count what is in them takes ANALYZE seconds.
ALTER TABLE pushes ALTER COLUMN user_ids SET STATISTICS 0;

CREATE INDEX pushes_unfinished ON pushes (send_at) WHERE state IN ('scheduled', 'preparing', 'sending');
CREATE INDEX pushes_finished ON pushes (finished_at) WHERE finished_at IS NOT NULL;
-- The few that wait for an operator, counted for the metrics.
CREATE INDEX pushes_stopped ON pushes (state) WHERE state IN ('paused', 'halted');
-- Which parts of audiences are still needed.
CREATE INDEX pushes_audience_parts ON pushes (audience_parts_id)
    WHERE audience_parts_id IS NOT NULL
        AND state IN ('scheduled', 'preparing', 'paused', 'halted', 'sending');

-- The users of a push lie in parts of many batches each: preparing stores a row for fifty thousand users.
CREATE TABLE push_parts (
    push_id             uuid        NOT NULL,
    -- Of its first batch.
    number              integer     NOT NULL,
    -- Whole batches, but for the last one of a part.
    batch_users         integer     NOT NULL CHECK (batch_users BETWEEN 1 AND 100),
    batches             integer     NOT NULL CHECK (batches > 0),
    -- How many of its batches have been claimed, from the first on.
    claimed             integer     NOT NULL DEFAULT 0 CHECK (claimed BETWEEN 0 AND batches),
    -- The users' ids, each in `id_bytes` bytes, the first one the highest: a claim takes its own out of the middle without looking at the
    -- others.
    ids                 bytea       NOT NULL,
    -- As many as the largest id of the part takes, which is seldom eight.
    id_bytes            integer     NOT NULL CHECK (id_bytes BETWEEN 1 AND 8),
    created_at          timestamptz NOT NULL DEFAULT now(),

    PRIMARY KEY (push_id, number),
    CONSTRAINT push_parts_ids_check CHECK (
        octet_length(ids) BETWEEN id_bytes * ((batches - 1) * batch_users + 1) AND id_bytes * batches * batch_users
    )
) WITH (toast_tuple_target = 128, fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Written once, so kept apart from what each claim writes anew; as it is, so that a part of it can be read.
ALTER TABLE push_parts ALTER COLUMN ids SET STORAGE EXTERNAL, ALTER COLUMN ids SET STATISTICS 0;

-- Of which there is something left to claim.
CREATE INDEX push_parts_unclaimed ON push_parts (push_id, number) WHERE claimed < batches;

-- The users of a batch of a part.
CREATE FUNCTION push_part_users(push uuid, batch integer) RETURNS bigint[]
LANGUAGE sql STABLE
-- With a setting it is not inlined. It is called for batches that are retried, each read by its key.
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

-- A server that sends holds a lease and renews it while it lives; its batches are taken over when the lease has ended.
CREATE TABLE push_leases (
    id                  uuid        PRIMARY KEY,
    ends_at             timestamptz NOT NULL
);

-- What a server has claimed at once. A batch that is sent at its first attempt, as nearly every one is, needs no row of its own.
CREATE TABLE push_claims (
    push_id             uuid        NOT NULL,
    -- Of its first batch.
    number              integer     NOT NULL,
    -- Whole batches, but for the last one of a push's part.
    batch_users         integer     NOT NULL CHECK (batch_users BETWEEN 1 AND 100),
    users               integer     NOT NULL CHECK (users > 0),
    -- NULL once nothing of it is under way.
    lease               uuid,
    -- A bit a batch: 1 when it has been sent, or has got a row of its own in push_batches.
    settled             bit varying NOT NULL,
    -- When the last one that has been sent was.
    finished_at         timestamptz,

    PRIMARY KEY (push_id, number),
    CHECK (users BETWEEN batch_users * (length(settled) - 1) + 1 AND batch_users * length(settled))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- What is under way, of a server that may have died.
CREATE INDEX push_claims_open ON push_claims (lease) WHERE lease IS NOT NULL;

-- The batches that were not sent at their first attempt, and the one of a push that is no larger.
CREATE TABLE push_batches (
    push_id             uuid        NOT NULL,
    number              integer     NOT NULL,
    users               integer     NOT NULL,
    -- NULL for those of its part: only what came of a refused batch, and the batch of a push that is no larger, hold users of their own.
    user_ids            bigint[]    CHECK (cardinality(user_ids) BETWEEN 1 AND 100),
    -- The batch that Kakao refused and that this one is a part of.
    origin              integer,
    state               text        NOT NULL CHECK (state IN ('waiting', 'sending', 'sent', 'failed', 'uncertain')),
    attempts            integer     NOT NULL DEFAULT 0,
    next_attempt_at     timestamptz NOT NULL DEFAULT now(),
    -- A server sends a batch under its lease; its result counts only under that lease.
    lease               uuid,
    -- Counts the claims of the batch. A result is stored only for the claim that it belongs to, so that storing it again after a lost
    -- response cannot touch a later claim.
    claims              integer     NOT NULL DEFAULT 0,
    -- An attempt was sent and not answered, or its server died: users of this batch may be reached twice.
    may_repeat          boolean     NOT NULL DEFAULT false,
    kakao_status        integer,
    kakao_code          integer,
    kakao_message       text,
    finished_at         timestamptz,

    PRIMARY KEY (push_id, number)
) WITH (
    toast_tuple_target = 128,
    -- Claimed and finished within a second: dead rows are cleaned up by number, not by share of a growing table.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_vacuum_cost_delay = 0,
    -- Batches are found by their keys, whatever the planner knows of the rest.
    autovacuum_analyze_scale_factor = 1
);

-- Written once and read once, so kept apart from what each attempt writes anew.
ALTER TABLE push_batches ALTER COLUMN user_ids SET STORAGE EXTERNAL, ALTER COLUMN user_ids SET STATISTICS 0;

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

-- The number of users of a push whose batches were sent.
CREATE FUNCTION push_users_sent(push uuid) RETURNS bigint
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT COALESCE(sum(users), 0)::bigint
    FROM push_counts
    WHERE push_id = push
        AND state = 'sent'
$$;

-- The probe of a push while its outcome is open: until Kakao has accepted the message for a further user, or all parts of the rejected batch
-- have ended.
CREATE FUNCTION push_open_probe(push pushes) RETURNS integer
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT push.probe
    WHERE push_users_sent(push.id) <= push.probe_sent
        AND EXISTS (
            SELECT 1
            FROM push_batches
            WHERE push_id = push.id
                AND origin = push.probe
                AND state IN ('waiting', 'sending')
        )
$$;

-- Requests with an `Idempotency-Key` and their responses. Operators choose their keys independently.
CREATE TABLE idempotency_keys (
    -- The SHA-256 of the operator key of the request; empty for the first key, which is a setting.
    operator_key        bytea       NOT NULL CHECK (octet_length(operator_key) IN (0, 32)),
    key                 text        NOT NULL,
    -- Of the request.
    sha256              bytea       NOT NULL CHECK (octet_length(sha256) = 32),
    push_id             uuid        NOT NULL,
    answer              bytea       NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),

    PRIMARY KEY (operator_key, key)
);

CREATE INDEX idempotency_keys_push_id ON idempotency_keys (push_id);
