-- Limits per user and per operator.

-- Operators choose their idempotency keys independently: the same key of another operator is another key.
ALTER TABLE idempotency_keys
    -- The SHA-256 of the operator key of the request; empty for the first key, which is a setting. NULL for rows of earlier versions, which did
    -- not scope keys: such a row matches a repeated request of any operator, until it is removed with its push.
    ADD COLUMN operator_key bytea CHECK (octet_length(operator_key) IN (0, 32));

-- `key` stays unique by itself, for servers of an earlier version: unless `operator_key` is empty, it begins with that SHA-256 in hexadecimal
-- digits and a space.

-- A user has at most 100 devices: a further one withdraws the user's oldest, by their last registrations.

-- Triggers enforce the limit, so that it holds for registrations, imports and servers of an earlier version alike. They run at the end of a
-- statement and see what was committed until then, not only until the statement began.
--
-- Concurrent statements do not see each other's devices, so that one has to wait for the other. A user with fewer than four devices, as nearly
-- all have, needs no lock: only more than thirty concurrent statements could exceed the limit, and the next registration would restore it.
CREATE FUNCTION withdraw_oldest_devices(owner bigint, added bigint) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(16, hashint8(owner));
    -- A user may have very many devices from earlier versions: at most a hundred more than were added are withdrawn at a time.
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

-- A registration authorized before its user left the app must not survive, however late it or the notice is stored.

ALTER TABLE devices
    -- When the token of the latest registration was verified; NULL for an operator key.
    ADD COLUMN authorized_at timestamptz;

ALTER TABLE events
    -- `received_at` by the clock of the database, which the times of devices go by; NULL for rows that are older than this column.
    ADD COLUMN happened_at timestamptz;

-- The types for which `KakaoEvent.effect` is `userGone`.
CREATE FUNCTION is_departure(event_type text) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path FROM CURRENT
AS $$
    SELECT event_type IN (
        'unlink',
        'https://schemas.openid.net/secevent/oauth/event-type/user-unlinked',
        'https://schemas.openid.net/secevent/risc/event-type/account-purged',
        'https://schemas.openid.net/secevent/risc/event-type/account-disabled'
    )
$$;

-- Whether a user has left the app since a time. Locked until the transaction ends, so that of a concurrent registration and notice the second
-- sees the first.
CREATE FUNCTION user_has_left(owner bigint, since timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(17, hashint8(owner));
    RETURN EXISTS (SELECT FROM events WHERE user_id = owner AND COALESCE(happened_at, received_at) >= since AND is_departure(type));
END
$$;

CREATE FUNCTION withdraw_departed_devices() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(17, hashint8(NEW.user_id));
    UPDATE devices
    SET withdrawn = true,
        revision = revision + 1,
        updated_at = now(),
        attempts = 0,
        next_attempt_at = now()
    WHERE user_id = NEW.user_id
        AND authorized_at <= COALESCE(NEW.happened_at, NEW.received_at)
        AND NOT withdrawn;
    RETURN NULL;
END
$$;

CREATE TRIGGER events_departure AFTER INSERT ON events
FOR EACH ROW WHEN (NEW.user_id IS NOT NULL AND is_departure(NEW.type)) EXECUTE FUNCTION withdraw_departed_devices();
