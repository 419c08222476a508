-- Outgoing webhooks: the events in the tables of the other features, read in the order of their transactions, and how far they have
-- been delivered. docs/webhooks.md describes the guarantees.
--
-- An event's row has the id of the transaction that made the event. A reader takes the rows whose transactions come before the
-- oldest one that is still running, so that it misses none, however late a transaction commits. Rows without an id are never
-- delivered: their events are older than the endpoint. Link callbacks, events of users and withdrawals of devices are inserted once,
-- with their id; rows that change get the id of the latest change that is an event (functions/record_event.sql).

-- One row if there is an endpoint, otherwise none: then nothing is recorded for webhooks.
CREATE TABLE webhook_endpoint (
    is_only             boolean     PRIMARY KEY DEFAULT true CHECK (is_only),
    -- The digest of its URL, which may contain a secret.
    url_sha256          bytea       NOT NULL CHECK (length(url_sha256) = 32),
    state               text        NOT NULL DEFAULT 'delivering' CHECK (state IN ('delivering', 'failing', 'gone')),
    since               timestamptz NOT NULL DEFAULT now(),
    last_error          text,
    last_error_at       timestamptz,
    -- The lease of the server that delivers.
    lease               uuid,
    -- The ids of transactions begin anew in another cluster. After the restoration of a dump, the ids that events already have are
    -- then those of transactions to come, and new events would come before the cursors. The offset is added to the ids of new
    -- events, so that they follow all others.
    xid_offset          bigint      NOT NULL DEFAULT 0,
    CHECK ((last_error IS NULL) = (last_error_at IS NULL))
);

-- How far each table is delivered: all events up to a transaction, and in it up to a row.
CREATE TABLE webhook_cursors (
    source              text        PRIMARY KEY,
    xid                 xid8        NOT NULL,
    key                 text        NOT NULL
);

-- Which transactions were running at a time: where a replay begins and ends. Every transaction before `oldest_xid` had ended
-- then, and none from `next_xid` on had begun.
CREATE TABLE webhook_marks (
    marked_at           timestamptz PRIMARY KEY DEFAULT now(),
    oldest_xid          xid8        NOT NULL,
    next_xid            xid8        NOT NULL
);

-- The webhooks that the endpoint did not accept while it accepted others.
CREATE TABLE webhook_deliveries (
    id                  uuid        PRIMARY KEY,
    webhook_id          text        NOT NULL UNIQUE,
    type                text        NOT NULL,
    happened_at         timestamptz NOT NULL,
    -- The user that it is about, whose erasure deletes it; NULL for none.
    user_id             bigint,
    -- The JSON of the member `data`, as text: it is sent again as it was.
    data                text        NOT NULL,
    state               text        NOT NULL CHECK (state IN ('pending', 'failed')),
    attempts            integer     NOT NULL,
    next_attempt_at     timestamptz NOT NULL,
    last_status         integer,
    last_error          text
);

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_attempt_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_user_id ON webhook_deliveries (user_id) WHERE user_id IS NOT NULL;

-- What operators want to be delivered again: the events of a table between two transactions that were stored within a time. `xid` and
-- `key` are how far it is.
CREATE TABLE webhook_replays (
    id                  uuid        PRIMARY KEY,
    source              text        NOT NULL,
    xid                 xid8        NOT NULL,
    key                 text        NOT NULL,
    end_xid             xid8        NOT NULL,
    since               timestamptz NOT NULL,
    until               timestamptz NOT NULL,
    types               text[]      NOT NULL
);
