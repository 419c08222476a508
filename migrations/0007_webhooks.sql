-- Outgoing webhooks: the endpoints of the settings, and a row for each event and endpoint, which is written in the transaction of the
-- event. docs/webhooks.md describes the guarantees.

-- The endpoints. Each server stores those of its settings, so that the statements that cause events know which endpoints want them.
CREATE TABLE webhook_endpoints (
    name                text        PRIMARY KEY,
    -- The digest of its URL, which may contain a secret.
    url_sha256          bytea       NOT NULL CHECK (length(url_sha256) = 32),
    -- The types that it gets, by name.
    types               text[]      NOT NULL,
    -- `removed`: no server has it in its settings any more, and its webhooks are being dropped.
    state               text        NOT NULL DEFAULT 'delivering' CHECK (state IN ('delivering', 'failing', 'gone', 'removed')),
    since               timestamptz NOT NULL DEFAULT now(),
    -- The failed requests in a row since it is failing, and in `next_probe_at` the time of the next one, which a single server makes.
    probes              integer     NOT NULL DEFAULT 0,
    next_probe_at       timestamptz NOT NULL DEFAULT now(),
    last_error          text,
    last_error_at       timestamptz,
    -- When a server last had it in its settings.
    confirmed_at        timestamptz NOT NULL DEFAULT now(),
    CHECK ((last_error IS NULL) = (last_error_at IS NULL))
);

CREATE TABLE webhook_events (
    -- Of version 7: it begins with `stored_at`. In the header `webhook-id`.
    id                  uuid        PRIMARY KEY,
    endpoint            text        NOT NULL,
    type                text        NOT NULL,
    happened_at         timestamptz NOT NULL DEFAULT now(),
    stored_at           timestamptz NOT NULL DEFAULT now(),
    -- The user that it is about, whose erasure deletes it; NULL for none, or several.
    user_id             bigint,
    -- The object that it is about, such as `pushes/01926f3e-…`, and the order of the events of one object: see
    -- functions/webhook_revision.sql.
    subject             text        NOT NULL,
    revision            bigint      NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    -- The object as it was after the event: a row of the view that shows it. NULL if the object never changes: then it is read
    -- when the webhook is sent.
    data                jsonb,
    -- `failed` after all attempts; `dropped` if the endpoint, or an object that was to be read, is gone.
    state               text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sending', 'delivered', 'failed', 'dropped')),
    -- The attempts that failed and were not the endpoint's fault.
    attempts            integer     NOT NULL DEFAULT 0,
    -- When it is sent, while it is pending.
    due_at              timestamptz NOT NULL DEFAULT now(),
    -- The state before an operator had it delivered again; NULL once it is.
    replayed_from       text        CHECK (replayed_from IN ('delivered', 'failed', 'dropped')),
    -- The lease of the server that sends it, and the number of times that it was claimed.
    lease               uuid,
    claims              integer     NOT NULL DEFAULT 0,
    last_status         integer,
    last_error          text,
    CHECK ((lease IS NOT NULL) = (state = 'sending'))
);

CREATE INDEX webhook_events_due ON webhook_events (endpoint, due_at) WHERE state = 'pending' AND replayed_from IS NULL;
CREATE INDEX webhook_events_replayed ON webhook_events (endpoint, due_at) WHERE state = 'pending' AND replayed_from IS NOT NULL;
CREATE INDEX webhook_events_lease ON webhook_events (lease) WHERE lease IS NOT NULL;
-- The webhooks that an endpoint has not accepted.
CREATE INDEX webhook_events_unaccepted ON webhook_events (id) WHERE attempts > 0 AND state <> 'delivered';
-- The events of objects that change.
CREATE INDEX webhook_events_subject ON webhook_events (subject) WHERE data IS NOT NULL;
CREATE INDEX webhook_events_user_id ON webhook_events (user_id) WHERE user_id IS NOT NULL;

-- What operators want to be delivered again: the webhooks that were stored within a time. They are made pending in steps.
CREATE TABLE webhook_replays (
    id                  uuid        PRIMARY KEY,
    endpoint            text        NOT NULL,
    since               timestamptz NOT NULL,
    until               timestamptz NOT NULL,
    types               text[]      NOT NULL,
    -- The last webhook of the steps so far.
    position            uuid        NOT NULL
);
