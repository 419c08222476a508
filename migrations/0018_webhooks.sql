-- Outgoing webhooks: the events in the tables of the other features, read in the order of their transactions, and how far they have
-- been delivered. docs/webhooks.md describes the guarantees.
--
-- An event's row has the id of the transaction that made the event. A reader takes the rows whose transactions come before the
-- oldest one that is still running, so that it misses none, however late a transaction commits. Rows without an id are never
-- delivered: their events are older than the endpoint.

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

-- Link callbacks and events of users are inserted once. Link callbacks arrive by the thousand a second, and those of a statement have
-- the same transaction, so that an index on that alone is small.

ALTER TABLE link_callbacks ADD COLUMN event_xid xid8;
CREATE INDEX link_callbacks_event_xid ON link_callbacks (event_xid) WHERE event_xid IS NOT NULL;

ALTER TABLE events ADD COLUMN event_xid xid8;
CREATE INDEX events_event_xid ON events (event_xid) WHERE event_xid IS NOT NULL;

-- Rows that change have the transaction of the latest change that is an event.

CREATE FUNCTION record_event() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF EXISTS (SELECT FROM webhook_endpoint) THEN
        NEW.event_xid := pg_current_xact_id();
        NEW.event_at := now();
    END IF;
    RETURN NEW;
END
$$;

ALTER TABLE pushes ADD COLUMN event_xid xid8, ADD COLUMN event_at timestamptz;
CREATE INDEX pushes_event_xid ON pushes (event_xid) WHERE event_xid IS NOT NULL;
CREATE TRIGGER pushes_created BEFORE INSERT ON pushes
FOR EACH ROW WHEN (NEW.state = 'proposed') EXECUTE FUNCTION record_event();
CREATE TRIGGER pushes_changed BEFORE UPDATE OF state ON pushes
FOR EACH ROW WHEN (NEW.state <> OLD.state AND NEW.state IN ('proposed', 'done', 'halted', 'expired'))
EXECUTE FUNCTION record_event();

ALTER TABLE messages ADD COLUMN event_xid xid8, ADD COLUMN event_at timestamptz;
CREATE INDEX messages_event_xid ON messages (event_xid) WHERE event_xid IS NOT NULL;
CREATE TRIGGER messages_changed BEFORE UPDATE OF state ON messages
FOR EACH ROW WHEN (NEW.state <> OLD.state) EXECUTE FUNCTION record_event();

ALTER TABLE accounts ADD COLUMN event_xid xid8, ADD COLUMN event_at timestamptz;
CREATE INDEX accounts_event_xid ON accounts (event_xid) WHERE event_xid IS NOT NULL;
CREATE TRIGGER accounts_changed BEFORE UPDATE OF state ON accounts
FOR EACH ROW WHEN (NEW.state <> OLD.state AND NEW.state = 'login_required') EXECUTE FUNCTION record_event();

-- That Kakao rejects the Admin key, or the app, is known to the servers that call Kakao. They record it for the others.
ALTER TABLE sender
    ADD COLUMN halted_at    timestamptz,
    ADD COLUMN halt_reason  text,
    ADD COLUMN event_xid    xid8,
    ADD COLUMN event_at     timestamptz,
    ADD CHECK ((halted_at IS NULL) = (halt_reason IS NULL));
CREATE TRIGGER sender_changed BEFORE UPDATE ON sender
FOR EACH ROW WHEN (NEW IS DISTINCT FROM OLD) EXECUTE FUNCTION record_event();

-- A withdrawn device is deleted once Kakao has deregistered it, so that its withdrawal is an event with a row of its own. Many
-- devices may be withdrawn in one transaction.

CREATE TABLE device_withdrawals (
    number              bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    user_id             bigint      NOT NULL,
    device_id           text        NOT NULL,
    push_type           text        NOT NULL,
    cause               text        NOT NULL,
    withdrawn_at        timestamptz NOT NULL DEFAULT now(),
    event_xid           xid8        NOT NULL
);

CREATE INDEX device_withdrawals_event_xid ON device_withdrawals (event_xid, number);
CREATE INDEX device_withdrawals_user_id ON device_withdrawals (user_id);
-- Rows lie in the order of their times, so a summary of each range of pages is enough to delete the oldest.
CREATE INDEX device_withdrawals_withdrawn_at ON device_withdrawals USING brin (withdrawn_at);

ALTER TABLE devices
    -- Why the device was withdrawn (docs/webhooks.md); without meaning unless it is.
    ADD COLUMN withdrawal_cause text;

CREATE FUNCTION record_withdrawal() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO device_withdrawals (user_id, device_id, push_type, cause, event_xid)
    SELECT NEW.user_id, NEW.device_id, NEW.push_type, NEW.withdrawal_cause, pg_current_xact_id()
    WHERE EXISTS (SELECT FROM webhook_endpoint);
    RETURN NULL;
END
$$;

CREATE TRIGGER devices_withdrawn AFTER UPDATE OF withdrawn ON devices
FOR EACH ROW WHEN (NEW.withdrawn AND NOT OLD.withdrawn) EXECUTE FUNCTION record_withdrawal();

-- Returns the columns of a device that is withdrawn for a cause. Every statement that withdraws devices uses this definition.
--
-- `updated_at` becomes `withdrawn_at`, so that an older line of an import does not register the device again. If
-- `applies` is false, the columns stay as they are.
DROP FUNCTION withdrawal;
CREATE FUNCTION withdrawal(device devices, cause text, withdrawn_at timestamptz DEFAULT now(), applies boolean DEFAULT true)
RETURNS TABLE (
    withdrawn boolean, revision bigint, updated_at timestamptz, attempts integer, next_attempt_at timestamptz,
    withdrawal_cause text
)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT device.withdrawn OR applies,
        device.revision + CASE WHEN applies AND NOT device.withdrawn THEN 1 ELSE 0 END,
        CASE WHEN applies THEN withdrawn_at ELSE device.updated_at END,
        CASE WHEN applies THEN 0 ELSE device.attempts END,
        CASE WHEN applies THEN now() ELSE device.next_attempt_at END,
        CASE WHEN applies AND NOT device.withdrawn THEN cause ELSE device.withdrawal_cause END;
END;

-- As before, with the cause.
CREATE OR REPLACE FUNCTION withdraw_oldest_devices(owner bigint, added bigint) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(16, hashint8(owner));
    -- Withdraws at most a hundred devices more than were added.
    WITH oldest AS (
        SELECT device_id, push_type
        FROM devices
        WHERE user_id = owner
            AND NOT withdrawn
        ORDER BY updated_at, device_id, push_type
        LIMIT (
            SELECT GREATEST(count(*) - 100, 0)
            FROM (SELECT FROM devices WHERE user_id = owner AND NOT withdrawn LIMIT 200 + added) AS device
        )
        -- A locked device is being registered, confirmed or withdrawn. Skipping it rules out a deadlock.
        FOR UPDATE SKIP LOCKED
    )
    UPDATE devices AS device
    SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
        = (SELECT * FROM withdrawal(device, 'too_many_devices', device.updated_at))
    FROM oldest
    WHERE device.user_id = owner
        AND (device.device_id, device.push_type) = (oldest.device_id, oldest.push_type);
END
$$;

-- As before, with the cause.
CREATE OR REPLACE FUNCTION withdraw_departed_devices(owner bigint, left_at timestamptz) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    devices_withdrawn bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(17, hashint8(owner));
    UPDATE devices AS device
    SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
        = (SELECT * FROM withdrawal(device, 'user_left'))
    WHERE user_id = owner
        AND NOT withdrawn
        AND (updated_at <= left_at OR authorized_at <= left_at);
    GET DIAGNOSTICS devices_withdrawn = ROW_COUNT;
    RETURN devices_withdrawn;
END
$$;
