-- Pushes, and the batches of at most 100 users in which they are sent. The states are drawn in docs/architecture.md.

CREATE TABLE pushes (
    id                  uuid        PRIMARY KEY,
    name                text,
    state               text        NOT NULL CHECK (state IN (
                            'scheduled', 'preparing', 'sending', 'done', 'paused', 'canceled', 'expired', 'halted')),
    -- Why it is halted, in words for the operator.
    reason              text,
    audience            jsonb       NOT NULL,
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
    finished_at         timestamptz
);

CREATE INDEX pushes_unfinished ON pushes (id) WHERE state IN ('scheduled', 'preparing', 'sending');

CREATE TABLE push_batches (
    push_id             uuid        NOT NULL,
    number              integer     NOT NULL,
    user_ids            bigint[]    NOT NULL CHECK (cardinality(user_ids) BETWEEN 1 AND 100),
    state               text        NOT NULL CHECK (state IN ('waiting', 'sending', 'sent', 'failed', 'uncertain', 'skipped')),
    attempts            integer     NOT NULL DEFAULT 0,
    next_attempt_at     timestamptz NOT NULL DEFAULT now(),
    -- A worker sends a batch under a lease; its result counts only under that lease.
    lease               uuid,
    lease_ends_at       timestamptz,
    -- An attempt was sent and not answered, or its worker died: users of this batch may be reached twice.
    may_repeat          boolean     NOT NULL DEFAULT false,
    kakao_status        integer,
    kakao_code          integer,
    kakao_message       text,
    finished_at         timestamptz,

    PRIMARY KEY (push_id, number)
);

-- What is to be sent, and what is being sent by a worker that may have died.
CREATE INDEX push_batches_waiting ON push_batches (next_attempt_at) WHERE state = 'waiting';
CREATE INDEX push_batches_sending ON push_batches (lease_ends_at) WHERE state = 'sending';
