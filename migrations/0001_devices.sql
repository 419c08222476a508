-- The devices of the service's users, and their changes that are pending at Kakao.

CREATE TABLE devices (
    -- The service's own id of the user, from 1 to 2^63-1. Kakao calls it `uuid`.
    user_id             bigint      NOT NULL CHECK (user_id > 0),
    device_id           text        NOT NULL,
    -- Version 1 of Kakao's Push API calls `fcm` `gcm`.
    push_type           text        NOT NULL CHECK (push_type IN ('apns', 'fcm')),
    push_token          text        NOT NULL,
    locale              text,
    timezone            text,
    app_version         text,
    tags                text[]      NOT NULL DEFAULT '{}',
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),

    -- Whether the app or the server has withdrawn the device. The row is deleted once Kakao has deregistered the
    -- device.
    withdrawn           boolean     NOT NULL DEFAULT false,
    -- The number of changes of the device. `kakao_revision` is the last change that Kakao has confirmed; a lower one
    -- means a pending change.
    revision            bigint      NOT NULL DEFAULT 1,
    kakao_revision      bigint      NOT NULL DEFAULT 0,
    -- The lease of the request or server that is calling Kakao about the device, so that these calls never overlap.
    lease               uuid,
    lease_ends_at       timestamptz,
    attempts            integer     NOT NULL DEFAULT 0,
    -- The time of the next call to Kakao; `infinity` for an imported device whose call is not scheduled yet.
    next_attempt_at     timestamptz NOT NULL DEFAULT now(),

    -- The time at which Kakao deletes the token unless it is renewed; NULL for never, and before Kakao has confirmed
    -- the device.
    expires_at          timestamptz,
    -- The time at which the server renews the token; NULL for never, and while a renewal is pending.
    renew_at            timestamptz,
    -- The revision with which the server, and not the app, renews the token.
    renewal_revision    bigint,

    -- The number of failures of the token that Kakao has reported since its registration.
    failures            integer     NOT NULL DEFAULT 0,
    last_failure_at     timestamptz,
    -- The times of the failures that `failures` counts, to recognize a duplicate report. Meaningless while `failures`
    -- is 0. Never has more elements than the number of failures after which a device is withdrawn.
    failure_dates       timestamptz[],

    -- The time at which the access token of the latest registration was verified; NULL for an operator's registration.
    authorized_at       timestamptz
) WITH (
    -- Apps repeat their registration at each start. Such an update changes no indexed column, and if the page has room,
    -- it updates no index at all (HOT).
    fillfactor = 85
);

-- `withdrawn` is included so that preparing a push to everyone reads only the index.
CREATE UNIQUE INDEX devices_pkey ON devices (user_id, device_id, push_type) INCLUDE (withdrawn);
ALTER TABLE devices ADD PRIMARY KEY USING INDEX devices_pkey;

-- Finds the devices with a token. It is a hash index because tokens are only compared for equality, and may be long.
CREATE INDEX devices_push_token ON devices USING hash (push_token);

-- The devices with a pending change.
CREATE INDEX devices_unsettled ON devices (next_attempt_at) WHERE kakao_revision < revision;

CREATE INDEX devices_renew_at ON devices (renew_at) WHERE renew_at IS NOT NULL;

-- Returns the columns of a device that is withdrawn. Every statement that withdraws devices uses this definition.
--
-- `updated_at` becomes `withdrawn_at`, so that an older line of an import does not register the device again. If
-- `applies` is false, the columns stay as they are.
CREATE FUNCTION withdrawal(device devices, withdrawn_at timestamptz DEFAULT now(), applies boolean DEFAULT true)
RETURNS TABLE (withdrawn boolean, revision bigint, updated_at timestamptz, attempts integer, next_attempt_at timestamptz)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT device.withdrawn OR applies,
        device.revision + CASE WHEN applies AND NOT device.withdrawn THEN 1 ELSE 0 END,
        CASE WHEN applies THEN withdrawn_at ELSE device.updated_at END,
        CASE WHEN applies THEN 0 ELSE device.attempts END,
        CASE WHEN applies THEN now() ELSE device.next_attempt_at END;
END;

-- A user has at most 100 devices. A further registration withdraws the user's oldest device, by the time of the last
-- registration.
--
-- Triggers enforce the limit for registrations and imports alike. They run at the end of a statement and see everything
-- that is committed by then, not only what was committed when the statement began.
--
-- Concurrent statements do not see each other's devices, so one must wait for the other. A user with fewer than four
-- devices needs no lock, and nearly all users have fewer. More than thirty concurrent statements would be needed to
-- exceed the limit, and the next registration would restore it.

CREATE FUNCTION withdraw_oldest_devices(owner bigint, added bigint) RETURNS void
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
    SET (withdrawn, revision, updated_at, attempts, next_attempt_at)
        = (SELECT * FROM withdrawal(device, device.updated_at))
    FROM oldest
    WHERE device.user_id = owner
        AND (device.device_id, device.push_type) = (oldest.device_id, oldest.push_type);
END
$$;

CREATE FUNCTION limit_added_devices() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    -- Users are locked in ascending order, as by all statements.
    PERFORM withdraw_oldest_devices(user_id, devices)
    FROM (SELECT user_id, count(*) AS devices FROM added WHERE NOT withdrawn GROUP BY user_id ORDER BY user_id) AS owner
    WHERE EXISTS (SELECT FROM devices WHERE devices.user_id = owner.user_id AND NOT withdrawn OFFSET 3);
    RETURN NULL;
END
$$;

CREATE FUNCTION limit_returned_device() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF EXISTS (SELECT FROM devices WHERE user_id = NEW.user_id AND NOT withdrawn OFFSET 3) THEN
        PERFORM withdraw_oldest_devices(NEW.user_id, 1);
    END IF;
    RETURN NULL;
END
$$;

-- Fires only for inserted rows, so that a repeated registration costs nothing more.
CREATE TRIGGER devices_added AFTER INSERT ON devices
REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION limit_added_devices();

CREATE TRIGGER devices_returned AFTER UPDATE OF withdrawn ON devices
FOR EACH ROW WHEN (OLD.withdrawn AND NOT NEW.withdrawn) EXECUTE FUNCTION limit_returned_device();
