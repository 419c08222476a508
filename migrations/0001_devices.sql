-- The devices of the service's users, and what Kakao has yet to be told of them.

CREATE TABLE devices (
    -- The service's own number for the user, as Kakao's `uuid`: 1 to 2^63-1.
    user_id             bigint      NOT NULL CHECK (user_id > 0),
    device_id           text        NOT NULL,
    -- `fcm` also stands for what version 1 of Kakao's Push API calls `gcm`.
    push_type           text        NOT NULL CHECK (push_type IN ('apns', 'fcm')),
    push_token          text        NOT NULL,
    locale              text,
    timezone            text,
    app_version         text,
    tags                text[]      NOT NULL DEFAULT '{}',
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),

    -- Taken back by its app or by the server: kept until Kakao has heard of it, then deleted.
    withdrawn           boolean     NOT NULL DEFAULT false,
    -- Counts what was asked for this device; `kakao_revision` is the last of it that Kakao has confirmed.
    revision            bigint      NOT NULL DEFAULT 1,
    kakao_revision      bigint      NOT NULL DEFAULT 0,
    -- Whoever tells Kakao about this device holds a lease on it, so that one call follows another.
    lease               uuid,
    lease_ends_at       timestamptz,
    attempts            integer     NOT NULL DEFAULT 0,
    -- `infinity` for an imported device whose turn has not come.
    next_attempt_at     timestamptz NOT NULL DEFAULT now(),

    -- When Kakao drops the token unless it is registered again; NULL for never and for not yet known.
    expires_at          timestamptz,
    -- When the server registers the token again by itself; NULL for never, and while it is being done.
    renew_at            timestamptz,
    -- The revision that was asked for by the server itself, to renew the token, and not by the app.
    renewal_revision    bigint,

    -- Failures of this token that Kakao has reported since it was registered.
    failures            integer     NOT NULL DEFAULT 0,
    last_failure_at     timestamptz,
    -- The dates of the failures that are counted in `failures`, by which a report that is stored again is recognized. Meaningless while
    -- `failures` is 0, and never longer than the number of failures after which a device is withdrawn.
    failure_dates       timestamptz[],

    -- When the token of the latest registration was verified; NULL for an operator key.
    authorized_at       timestamptz
) WITH (
    -- Apps register at every start what is registered already. Such an update changes nothing that is indexed, and with room on its page
    -- it touches no index at all (HOT).
    fillfactor = 85
);

-- Preparing a push to everyone asks who has a phone that counts: with `withdrawn` in it, it reads the index and not the devices.
CREATE UNIQUE INDEX devices_pkey ON devices (user_id, device_id, push_type) INCLUDE (withdrawn);
ALTER TABLE devices ADD PRIMARY KEY USING INDEX devices_pkey;

-- Who holds a token: a phone that changes hands is found by it. Only equality is asked for, and tokens may be long.
CREATE INDEX devices_push_token ON devices USING hash (push_token);

-- What Kakao has yet to be told.
CREATE INDEX devices_unsettled ON devices (next_attempt_at) WHERE kakao_revision < revision;

CREATE INDEX devices_renew_at ON devices (renew_at) WHERE renew_at IS NOT NULL;

-- A user has at most 100 devices: a further one withdraws the user's oldest, by their last registrations.
--
-- Triggers enforce the limit, so that it holds for registrations and imports alike. They run at the end of a statement and see what was
-- committed until then, not only until the statement began.
--
-- Concurrent statements do not see each other's devices, so that one has to wait for the other. A user with fewer than four devices, as nearly
-- all have, needs no lock: only more than thirty concurrent statements could exceed the limit, and the next registration would restore it.

CREATE FUNCTION withdraw_oldest_devices(owner bigint, added bigint) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(16, hashint8(owner));
    -- However many there are: at most a hundred more than were added are withdrawn at a time.
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
    SET withdrawn = true,
        revision = device.revision + 1,
        attempts = 0,
        next_attempt_at = now()
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
    -- In ascending order, as all statements lock users.
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

-- Only for inserted rows: a repeated registration costs nothing more.
CREATE TRIGGER devices_added AFTER INSERT ON devices
REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION limit_added_devices();

CREATE TRIGGER devices_returned AFTER UPDATE OF withdrawn ON devices
FOR EACH ROW WHEN (OLD.withdrawn AND NOT NEW.withdrawn) EXECUTE FUNCTION limit_returned_device();
