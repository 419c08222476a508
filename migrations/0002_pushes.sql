-- Pushes and audiences. A push is prepared from its audience step by step and sent in batches of at most 100 users under
-- leases, and its counts are updated meanwhile. docs/architecture.md has the state diagrams, docs/delivery.md the guarantees.
--
-- No row is stored for a user: the users of a push are packed into parts, in which a user is found by a binary search
-- (functions/push_user_batch.sql).

CREATE TABLE pushes (
    id                  uuid        PRIMARY KEY,
    name                text,
    state               text        NOT NULL CHECK (state IN (
                            'proposed', 'scheduled', 'preparing', 'sending', 'done', 'paused', 'canceled', 'expired', 'halted')),
    -- The reason why the push is halted, for the operator.
    reason              text,

    audience            jsonb       NOT NULL,
    -- The users that the request itself listed, in ascending order.
    user_ids            bigint[],
    -- The parts of the stored audience that the push is prepared from, even if the audience is replaced meanwhile. NULL
    -- for another kind of audience.
    audience_parts_id   uuid,
    -- `except` as given; NULL without one.
    exclusion           jsonb,
    -- The parts of the stored audience that is left out, even if the audience is replaced meanwhile.
    excluded_parts_id   uuid,
    -- The earlier pushes whose users are left out.
    excluded_pushes     uuid[],
    -- The platforms that the message addresses. A user without a device of any of them is skipped. If empty, no user is
    -- skipped for that reason.
    platforms           text[]      NOT NULL DEFAULT '{}',

    -- Kakao's `push_message`, as text: Kakao receives exactly what the operator wrote.
    message             text        NOT NULL,
    -- The version of Kakao's Push API whose format the message has.
    message_version     text        NOT NULL CHECK (message_version IN ('v1', 'v2')),
    bypass              boolean     NOT NULL DEFAULT false,
    -- The beginning of what a phone shows, for lists.
    first_words         text        NOT NULL DEFAULT '',
    -- The warnings about the message, an array of objects with `code`, `path` and `message`.
    warnings            jsonb       NOT NULL DEFAULT '[]',
    -- NULL if the request did not say.
    kind                text        CHECK (kind IN ('advertising', 'informational')),
    -- Whether it is sent to `pushes.testers`.
    to_testers          boolean     NOT NULL DEFAULT false,
    delivery            text        NOT NULL DEFAULT 'at_least_once'
                            CHECK (delivery IN ('at_least_once', 'at_most_once')),
    users_per_second    integer,
    send_at             timestamptz,
    expires_at          timestamptz,
    created_at          timestamptz NOT NULL DEFAULT now(),
    started_at          timestamptz,
    finished_at         timestamptz,

    -- The name of the operator key that created the push.
    created_by          text,
    -- The id of the operator key that created the push; NULL for the key in the settings.
    created_by_key      uuid,
    -- The users to send to, as counted when the push was created; NULL if there was no need to count them.
    counted_users       bigint,
    -- The most users to whom it is sent without a further approval; NULL for any number.
    allowed_users       bigint,
    approved_at         timestamptz,
    -- The name of the operator key that approved it.
    approved_by         text,
    -- The id of the operator key that approved it; NULL for the key in the settings.
    approved_by_key     uuid,
    -- The name of the operator key that last paused, canceled or rejected it; NULL once it was resumed.
    stopped_by          text,

    -- The maximum number of users in a batch: 100, or fewer for a push with a low rate.
    batch_users         integer     NOT NULL DEFAULT 100 CHECK (batch_users BETWEEN 1 AND 100),
    -- The progress of the preparation: a user's id, or a position in the list of users or of parts.
    prepared_up_to      bigint      NOT NULL DEFAULT 0,
    -- The time at which the preparation ended.
    prepared_at         timestamptz,
    -- The number of users in batches so far.
    users               bigint      NOT NULL DEFAULT 0,
    users_skipped       bigint      NOT NULL DEFAULT 0,
    -- The users in `push_skipped`, by cause.
    users_no_device     bigint      NOT NULL DEFAULT 0,
    -- As `users_no_device`.
    users_excluded      bigint      NOT NULL DEFAULT 0,
    -- As `users_no_device`.
    users_without_consent bigint    NOT NULL DEFAULT 0,
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
    -- PostgreSQL has lost parts of the push whose batches were sent. The batches below this number that are prepared again may
    -- have been sent. NULL if no part is lost.
    presumed_until      integer,
    -- Set while a retry is being prepared: the batches with numbers above `retry_position` and below `retry_end` have
    -- yet to be reset.
    retry_position      integer,
    retry_end           integer,
    -- Whether uncertain batches are retried too.
    retry_uncertain     boolean     NOT NULL DEFAULT false,
    -- The time at which retention began to delete the push's batches. The push cannot be retried after that.
    removed_at          timestamptz,
    -- Whether it is advertising that was canceled or expired outside the hours for advertising.
    ended_at_night      boolean     NOT NULL DEFAULT false,

    CONSTRAINT pushes_retry_check CHECK ((retry_position IS NULL) = (retry_end IS NULL))
);

-- No query searches these lists, and analyzing their elements takes ANALYZE seconds.
ALTER TABLE pushes ALTER COLUMN user_ids SET STATISTICS 0;

CREATE INDEX pushes_unfinished ON pushes (send_at) WHERE state IN ('scheduled', 'preparing', 'sending');
CREATE INDEX pushes_finished ON pushes (finished_at) WHERE finished_at IS NOT NULL;
-- The few pushes that wait for an operator. The metrics count them, and the status shows the oldest of each state.
CREATE INDEX pushes_stopped ON pushes (state, id) WHERE state IN ('proposed', 'paused', 'halted');

-- Find the parts of audiences that are still needed.
CREATE INDEX pushes_audience_parts ON pushes (audience_parts_id)
    WHERE audience_parts_id IS NOT NULL
        AND state IN ('proposed', 'scheduled', 'preparing', 'paused', 'halted', 'sending');
CREATE INDEX pushes_excluded_parts ON pushes (excluded_parts_id)
    WHERE excluded_parts_id IS NOT NULL
        AND state IN ('proposed', 'scheduled', 'preparing', 'paused', 'halted', 'sending');
-- The few pushes that still need their excluded pushes.
CREATE INDEX pushes_excluding ON pushes (id)
    WHERE excluded_pushes IS NOT NULL
        AND prepared_at IS NULL
        AND finished_at IS NULL;

-- Find the few pushes that an operator asks for among very many.
CREATE INDEX pushes_name ON pushes (name COLLATE "C", id) WHERE name IS NOT NULL;
CREATE INDEX pushes_created_by ON pushes (created_by, id) WHERE created_by IS NOT NULL;
CREATE INDEX pushes_open ON pushes (id) WHERE finished_at IS NULL;

-- The pushes that have begun, in the order of an inbox. Those to a single user are found by the user, so that the search for a user
-- reads only those to several.
CREATE INDEX pushes_begun_to_one ON pushes ((user_ids[1]), started_at, id)
    WHERE cardinality(user_ids) = 1
        AND started_at IS NOT NULL;
CREATE INDEX pushes_begun_to_several ON pushes (started_at, id)
    WHERE cardinality(user_ids) IS DISTINCT FROM 1
        AND started_at IS NOT NULL;

-- Finds the tests of a message. A hash index stores a digest of the message, and compares the message itself in the table.
CREATE INDEX pushes_tested ON pushes USING hash (message) WHERE to_testers;

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
    -- The users of finished batches with `may_repeat`. A batch that is sent at its first attempt, as nearly every one is,
    -- adds none.
    may_repeat          bigint      NOT NULL DEFAULT 0,

    PRIMARY KEY (push_id, slot, state)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The users whom a step of a push's preparation skipped, one row for each cause. Written by the statement that stores the part of
-- that step and moves the push's cursor. A push of a single batch has none: its skipped users are those of `pushes.user_ids` who are
-- not in the batch.
CREATE TABLE push_skipped (
    push_id             uuid        NOT NULL,
    -- Why they were skipped. A user with several causes has the first of these.
    cause               text        NOT NULL CHECK (cause IN ('excluded', 'without_consent', 'no_device')),
    -- `pushes.prepared_up_to` after the step.
    position            bigint      NOT NULL,
    -- The users' ids, in the form of `push_parts.ids`.
    ids                 bytea       NOT NULL,
    -- The number of bytes of the largest id.
    id_bytes            integer     NOT NULL CHECK (id_bytes BETWEEN 1 AND 8),

    PRIMARY KEY (push_id, cause, position),
    CONSTRAINT push_skipped_ids_check CHECK (octet_length(ids) > 0 AND octet_length(ids) % id_bytes = 0)
) WITH (toast_tuple_target = 128);

-- Written once. Uncompressed, so that an export can read ranges of it.
ALTER TABLE push_skipped ALTER COLUMN ids SET STORAGE EXTERNAL, ALTER COLUMN ids SET STATISTICS 0;

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

-- Audiences: users that an operator has uploaded under a name.
CREATE TABLE audiences (
    -- Sorted by bytes, so that the pages of a list do not depend on the database's locale.
    name                text        COLLATE "C" PRIMARY KEY,
    -- The parts that hold its current users. An upload writes parts under a new id and changes this column in the same
    -- transaction, so that other transactions see either the old users or the new ones. The statement that creates a
    -- push reads this row FOR SHARE. Until its transaction ends, the row cannot change, and its parts cannot be deleted
    -- as unused.
    parts_id            uuid        NOT NULL,
    users               bigint      NOT NULL CHECK (users > 0),
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL
);

-- The users of audiences, in parts of at most a thousand.
CREATE TABLE audience_parts (
    parts_id            uuid        NOT NULL,
    -- From 1. The users of all parts together are in ascending order, without duplicates.
    number              integer     NOT NULL CHECK (number > 0),
    user_ids            bigint[]    NOT NULL CHECK (cardinality(user_ids) BETWEEN 1 AND 1000),

    PRIMARY KEY (parts_id, number)
);

-- No query searches these lists, and analyzing their elements takes ANALYZE seconds.
ALTER TABLE audience_parts ALTER COLUMN user_ids SET STATISTICS 0;

-- Finds the parts of an audience that have the users of a page. The users of an audience ascend from part to part.
CREATE INDEX audience_parts_first_user ON audience_parts (parts_id, (user_ids[1]));
