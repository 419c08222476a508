-- What the servers share, and what operators control and see of all of them together.

-- The leases under which servers claim the work of a queue, such as the batches of pushes. A server renews its lease while
-- it runs. Other servers reclaim its work after the lease has expired.
CREATE TABLE work_leases (
    id                  uuid        PRIMARY KEY,
    -- `pushes`, `messages` or `webhooks`.
    queue               text        NOT NULL,
    ends_at             timestamptz NOT NULL,
    -- The server that holds the lease: its machine, its `version`, and its start (`started_at`).
    host                text        NOT NULL DEFAULT '',
    version             text        NOT NULL DEFAULT '',
    started_at          timestamptz NOT NULL DEFAULT now(),
    -- The process that holds it, and the run of PostgreSQL (functions/database_run.sql) that this process has compared with
    -- what it knows. Nothing of a queue is claimed while a lease has another run. NULL for a version that does not compare.
    process             uuid,
    checked_run         text
);

-- One row: whether pushes and KakaoTalk messages are sent. The statements that claim work lock it (`FOR SHARE`), and claim
-- nothing while it is stopped. A stop therefore waits for the claims in flight, and nothing is claimed after its commit,
-- even by a server that has not heard of it.
CREATE TABLE sender (
    is_only             boolean     PRIMARY KEY DEFAULT true CHECK (is_only),
    -- NULL while it runs.
    stopped_at          timestamptz,
    -- Why it was stopped, and in `stopped_by` the name of the operator key that stopped it.
    reason              text,
    stopped_by          text,
    -- When the servers that call Kakao found that it rejects the Admin key, or the app, and in `halt_reason` why. NULL
    -- unless it does.
    halted_at           timestamptz,
    halt_reason         text,
    -- When a server last found that PostgreSQL had lost commits; NULL for never.
    commits_lost_at     timestamptz,
    -- The run of PostgreSQL (functions/database_run.sql) that a server has last seen, and in `run_seen_at` when one first did: see
    -- functions/run_wait.sql. NULL before the first server.
    run                 text,
    run_seen_at         timestamptz,
    CHECK ((stopped_at IS NULL) = (reason IS NULL) AND (stopped_at IS NULL) = (stopped_by IS NULL)),
    CHECK ((halted_at IS NULL) = (halt_reason IS NULL))
);

INSERT INTO sender DEFAULT VALUES;

-- The users who were erased lately: what a server knows of them is not stored again when PostgreSQL has lost commits. Deleted
-- after a day.
CREATE TABLE erased_users (
    user_id             bigint      PRIMARY KEY,
    erased_at           timestamptz NOT NULL
);

CREATE INDEX erased_users_erased_at ON erased_users (erased_at);

-- The calls to Kakao in a month, by the calendar of Seoul. Kakao limits those of all APIs together.
CREATE TABLE kakao_calls (
    month               date        PRIMARY KEY,
    calls               bigint      NOT NULL
);
