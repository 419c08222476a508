-- Pushes. A push is prepared from its audience step by step and sent in batches of at most 100 users under leases, and
-- its counts are updated meanwhile. docs/architecture.md has the state diagrams, docs/delivery.md the guarantees.

CREATE TABLE pushes (
    id                  uuid        PRIMARY KEY,
    name                text,
    state               text        NOT NULL CHECK (state IN (
                            'scheduled', 'preparing', 'sending', 'done', 'paused', 'canceled', 'expired', 'halted')),
    -- The reason why the push is halted, for the operator.
    reason              text,
    audience            jsonb       NOT NULL,
    -- The users that the request itself listed, in ascending order.
    user_ids            bigint[],
    -- The parts of the stored audience that the push is prepared from, even if the audience is replaced meanwhile. NULL
    -- for another kind of audience.
    audience_parts_id   uuid,
    -- The platforms that the message addresses. A user without a device of any of them is skipped. If empty, no user is
    -- skipped for that reason.
    platforms           text[]      NOT NULL DEFAULT '{}',
    -- Kakao's `push_message`, as text: Kakao receives exactly what the operator wrote.
    message             text        NOT NULL,
    -- The version of Kakao's Push API whose format the message has.
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

    -- The maximum number of users in a batch: 100, or fewer for a push with a low rate.
    batch_users         integer     NOT NULL DEFAULT 100 CHECK (batch_users BETWEEN 1 AND 100),
    -- The progress of the preparation: a user's id, or a position in the list of users or of parts.
    prepared_up_to      bigint      NOT NULL DEFAULT 0,
    -- The time at which the preparation ended.
    prepared_at         timestamptz,
    -- The number of users in batches so far.
    users               bigint      NOT NULL DEFAULT 0,
    users_skipped       bigint      NOT NULL DEFAULT 0,
    -- The number of the next batch, and so one more than the number of batches.
    next_number         integer     NOT NULL DEFAULT 1,

    -- The batch in which Kakao first rejected the message. No other batch is tried until a user of this one has been
    -- sent the message.
    probe               integer,
    -- The number of users sent when `probe` was set. Once it is exceeded, Kakao accepts the message and the probe is
    -- over.
    probe_sent          bigint      NOT NULL DEFAULT 0,
    -- The number of users that could be sent at the time `rate_at`, under `users_per_second`.
    rate_users          float8      NOT NULL DEFAULT 0,
    rate_at             timestamptz NOT NULL DEFAULT now(),
    -- Set while a retry is being prepared: the batches with numbers above `retry_position` and below `retry_end` have
    -- yet to be reset.
    retry_position      integer,
    retry_end           integer,
    retry_uncertain     boolean     NOT NULL DEFAULT false,
    -- The time at which retention began to delete the push's batches. The push cannot be retried after that.
    removed_at          timestamptz,

    CONSTRAINT pushes_retry_check CHECK ((retry_position IS NULL) = (retry_end IS NULL))
);

-- No query searches these lists, and analyzing their elements takes ANALYZE seconds.
ALTER TABLE pushes ALTER COLUMN user_ids SET STATISTICS 0;

CREATE INDEX pushes_unfinished ON pushes (send_at) WHERE state IN ('scheduled', 'preparing', 'sending');
CREATE INDEX pushes_finished ON pushes (finished_at) WHERE finished_at IS NOT NULL;
-- The few pushes that wait for an operator. The metrics count them.
CREATE INDEX pushes_stopped ON pushes (state) WHERE state IN ('paused', 'halted');
-- Finds the parts of audiences that are still needed.
CREATE INDEX pushes_audience_parts ON pushes (audience_parts_id)
    WHERE audience_parts_id IS NOT NULL
        AND state IN ('scheduled', 'preparing', 'paused', 'halted', 'sending');

-- The users of a push, in parts of many batches each: preparing stores one row for fifty thousand users.
CREATE TABLE push_parts (
    push_id             uuid        NOT NULL,
    -- The number of its first batch.
    number              integer     NOT NULL,
    -- The number of users in each batch; the last batch of a part may have fewer.
    batch_users         integer     NOT NULL CHECK (batch_users BETWEEN 1 AND 100),
    batches             integer     NOT NULL CHECK (batches > 0),
    -- The number of its batches that have been claimed, from the first one on.
    claimed             integer     NOT NULL DEFAULT 0 CHECK (claimed BETWEEN 0 AND batches),
    -- The users' ids, each in `id_bytes` bytes, the most significant first. A claim reads its range without reading the
    -- others.
    ids                 bytea       NOT NULL,
    -- The number of bytes of the part's largest id, which is seldom eight.
    id_bytes            integer     NOT NULL CHECK (id_bytes BETWEEN 1 AND 8),
    created_at          timestamptz NOT NULL DEFAULT now(),

    PRIMARY KEY (push_id, number),
    CONSTRAINT push_parts_ids_check CHECK (
        octet_length(ids) BETWEEN id_bytes * ((batches - 1) * batch_users + 1) AND id_bytes * batches * batch_users
    )
) WITH (toast_tuple_target = 128, fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Written once, so stored apart from the columns that each claim updates. Uncompressed, so that a range of it can be
-- read.
ALTER TABLE push_parts ALTER COLUMN ids SET STORAGE EXTERNAL, ALTER COLUMN ids SET STATISTICS 0;

-- The parts with batches left to claim.
CREATE INDEX push_parts_unclaimed ON push_parts (push_id, number) WHERE claimed < batches;

-- Returns the users of a batch of a part.
CREATE FUNCTION push_part_users(push uuid, batch integer) RETURNS bigint[]
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

-- Claims: the batches that a server has claimed at once. A batch that is sent at its first attempt, as nearly every one
-- is, needs no row of its own.
CREATE TABLE push_claims (
    push_id             uuid        NOT NULL,
    -- The number of its first batch.
    number              integer     NOT NULL,
    -- The number of users in each batch; the last batch of a push's part may have fewer.
    batch_users         integer     NOT NULL CHECK (batch_users BETWEEN 1 AND 100),
    users               integer     NOT NULL CHECK (users > 0),
    -- NULL once none of its batches is in flight.
    lease               uuid,
    -- A bit for each batch: 1 once it has been sent, or has a row of its own in push_batches.
    settled             bit varying NOT NULL,
    -- The time at which the last of its sent batches was sent.
    finished_at         timestamptz,

    PRIMARY KEY (push_id, number),
    CHECK (users BETWEEN batch_users * (length(settled) - 1) + 1 AND batch_users * length(settled))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Finds the batches in flight of a server that may have died.
CREATE INDEX push_claims_open ON push_claims (lease) WHERE lease IS NOT NULL;

-- The batches that were not sent at their first attempt, and the batch of a push that has only one.
CREATE TABLE push_batches (
    push_id             uuid        NOT NULL,
    number              integer     NOT NULL,
    users               integer     NOT NULL,
    -- NULL for a batch of a part. Only parts of a rejected batch, and the batch of a push that has only one, store
    -- users of their own.
    user_ids            bigint[]    CHECK (cardinality(user_ids) BETWEEN 1 AND 100),
    -- The batch that Kakao rejected and that this one is split from.
    origin              integer,
    state               text        NOT NULL CHECK (state IN ('waiting', 'sending', 'sent', 'failed', 'uncertain')),
    attempts            integer     NOT NULL DEFAULT 0,
    next_attempt_at     timestamptz NOT NULL DEFAULT now(),
    -- The lease under which a server sends the batch, a row of `work_leases`. Its result counts only under that lease.
    lease               uuid,
    -- The number of claims of the batch. A result is stored only for the claim that it belongs to, so that storing it
    -- again after a lost response cannot affect a later claim.
    claims              integer     NOT NULL DEFAULT 0,
    -- An attempt was sent without a response, or its server died. Users of this batch may be reached twice.
    may_repeat          boolean     NOT NULL DEFAULT false,
    kakao_status        integer,
    kakao_code          integer,
    kakao_message       text,
    finished_at         timestamptz,

    PRIMARY KEY (push_id, number)
) WITH (
    toast_tuple_target = 128,
    -- Batches are claimed and finished within a second, so dead rows are cleaned up by number and not by their share of
    -- a growing table.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_vacuum_cost_delay = 0,
    -- Batches are found by their keys, so that the planner needs no recent statistics.
    autovacuum_analyze_scale_factor = 1
);

-- Written once and read once, so stored apart from the columns that each attempt updates.
ALTER TABLE push_batches ALTER COLUMN user_ids SET STORAGE EXTERNAL, ALTER COLUMN user_ids SET STATISTICS 0;

CREATE INDEX push_batches_waiting ON push_batches (push_id, next_attempt_at, number) WHERE state = 'waiting';
CREATE INDEX push_batches_sending ON push_batches (lease) WHERE state = 'sending';
CREATE INDEX push_batches_origin ON push_batches (push_id, origin) WHERE origin IS NOT NULL;
-- Finds the few batches that an operator asks for among very many.
CREATE INDEX push_batches_unsent ON push_batches (push_id, state, number) WHERE state IN ('failed', 'uncertain');

-- The users and batches of a push by outcome. They are spread over a few rows, so that servers that count do not wait
-- for each other.
CREATE TABLE push_counts (
    push_id             uuid        NOT NULL,
    slot                integer     NOT NULL,
    state               text        NOT NULL CHECK (state IN ('sent', 'failed', 'uncertain')),
    users               bigint      NOT NULL,
    batches             bigint      NOT NULL,

    PRIMARY KEY (push_id, slot, state)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Returns the number of users of a push whose batches were sent.
CREATE FUNCTION push_users_sent(push uuid) RETURNS bigint
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT COALESCE(sum(users), 0)::bigint
    FROM push_counts
    WHERE push_id = push
        AND state = 'sent'
$$;

-- Returns the probe of a push while its outcome is open: until Kakao has accepted the message for a further user, or
-- all parts of the rejected batch have ended.
CREATE FUNCTION push_open_probe(push uuid, probe integer, probe_sent bigint) RETURNS integer
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT push_open_probe.probe
    WHERE push_users_sent(push) <= push_open_probe.probe_sent
        AND EXISTS (
            SELECT 1
            FROM push_batches
            WHERE push_id = push
                AND origin = push_open_probe.probe
                AND state IN ('waiting', 'sending')
        )
$$;

-- Requests with an `Idempotency-Key` and their responses. Operators choose their keys independently.
CREATE TABLE idempotency_keys (
    -- The SHA-256 of the operator key of the request; empty for the first key, which is a setting.
    operator_key        bytea       NOT NULL CHECK (octet_length(operator_key) IN (0, 32)),
    key                 text        NOT NULL,
    -- The SHA-256 of the request.
    sha256              bytea       NOT NULL CHECK (octet_length(sha256) = 32),
    push_id             uuid        NOT NULL,
    answer              bytea       NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),

    PRIMARY KEY (operator_key, key)
);

CREATE INDEX idempotency_keys_push_id ON idempotency_keys (push_id);
