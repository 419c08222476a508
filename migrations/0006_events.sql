-- Events that Kakao reports about its users, such as an unlink of the app.

CREATE TABLE events (
    -- The type of event and Kakao's id of the notice; the row's own id for a notice without one.
    key                 text        PRIMARY KEY,
    -- UUID version 7. It sorts by the time of receipt, so that lists are paged by it.
    id                  uuid        NOT NULL,
    type                text        NOT NULL,
    -- NULL for an event that names no user.
    user_id             bigint,
    -- The reason as Kakao names it. Kakao may add others.
    referrer_type       text,
    -- The other members of the notice.
    payload             jsonb       NOT NULL,
    received_at         timestamptz NOT NULL,
    -- The time of receipt by the database's clock, like the times of devices.
    happened_at         timestamptz NOT NULL,
    -- Long after `received_at` for a notice that waited in the journal during an outage of the database.
    stored_at           timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX events_id ON events (id);
CREATE INDEX events_user_id ON events (user_id);
-- Lists the events of one type: a few rare ones among very many.
CREATE INDEX events_type ON events (type, id);
-- Rows lie in the order in which they were stored, so a summary of each range of pages is enough, and inserts cost
-- nothing more.
CREATE INDEX events_stored_at ON events USING brin (stored_at);

-- A registration that was authorized before its user left the app must not survive, however late it or the notice is
-- stored.

-- Returns whether an event means that its user has left the app: the types for which
-- `KakaoEvent.userEventKind` is `left`.
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

-- Returns whether a user has left the app since a time. Takes a lock until the end of the transaction, so that if a
-- registration and a notice are concurrent, the second one sees the first.
CREATE FUNCTION user_has_left(owner bigint, since timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(17, hashint8(owner));
    RETURN EXISTS (SELECT FROM events WHERE user_id = owner AND happened_at >= since AND is_departure(type));
END
$$;

-- Withdraws the devices of a user who has left the app, except those that were registered since. Returns their number.
CREATE FUNCTION withdraw_departed_devices(owner bigint, left_at timestamptz) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    devices_withdrawn bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(17, hashint8(owner));
    UPDATE devices AS device
    SET (withdrawn, revision, updated_at, attempts, next_attempt_at) = (SELECT * FROM withdrawal(device))
    WHERE user_id = owner
        AND NOT withdrawn
        AND (updated_at <= left_at OR authorized_at <= left_at);
    GET DIAGNOSTICS devices_withdrawn = ROW_COUNT;
    RETURN devices_withdrawn;
END
$$;
