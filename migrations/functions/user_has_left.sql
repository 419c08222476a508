-- Returns whether a user has left the app since a time. Takes a lock until the end of the transaction, so that if a
-- registration and a notice are concurrent, the second one sees the first.
CREATE OR REPLACE FUNCTION user_has_left(owner bigint, since timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(17, hashint8(owner));
    RETURN EXISTS (SELECT FROM events WHERE user_id = owner AND happened_at >= since AND is_departure(type));
END
$$;
