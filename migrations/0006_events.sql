-- What Kakao tells of its users: that one has unlinked the app, and whatever else it may come to tell.

CREATE TABLE events (
    -- What Kakao tells one notice from another by, behind the kind of event; the row's own id when Kakao gave nothing.
    key                 text        PRIMARY KEY,
    -- UUID version 7: sorts by the time of receipt, so that lists are paged by it.
    id                  uuid        NOT NULL,
    type                text        NOT NULL,
    -- Whom it concerns; NULL when it does not say.
    user_id             bigint,
    -- Why, in Kakao's word. The list of them grows.
    referrer_type       text,
    -- Whatever else came with it.
    payload             jsonb       NOT NULL,
    received_at         timestamptz NOT NULL,
    -- `received_at` by the clock of the database, which the times of devices go by.
    happened_at         timestamptz NOT NULL,
    -- Long after it was received when the notice waited in a journal while the database was away.
    stored_at           timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX events_id ON events (id);
CREATE INDEX events_user_id ON events (user_id);
-- Lists of the events of one type: the few of a rare one among very many.
CREATE INDEX events_type ON events (type, id);
-- Rows lie in the order in which they are stored, so that a summary of each range of pages is enough, and an insert costs nothing more.
CREATE INDEX events_stored_at ON events USING brin (stored_at);

-- A registration authorized before its user left the app must not survive, however late it or the notice is stored.

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
    RETURN EXISTS (SELECT FROM events WHERE user_id = owner AND happened_at >= since AND is_departure(type));
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
        AND authorized_at <= NEW.happened_at
        AND NOT withdrawn;
    RETURN NULL;
END
$$;

CREATE TRIGGER events_departure AFTER INSERT ON events
FOR EACH ROW WHEN (NEW.user_id IS NOT NULL AND is_departure(NEW.type)) EXECUTE FUNCTION withdraw_departed_devices();
