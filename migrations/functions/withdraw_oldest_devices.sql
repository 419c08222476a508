-- Withdraws the oldest devices of a user who has more than 100, by the time of the last registration.
--
-- Triggers enforce the limit for registrations and imports alike. They run at the end of a statement and see everything
-- that is committed by then, not only what was committed when the statement began.
--
-- Concurrent statements do not see each other's devices, so one must wait for the other. A user with fewer than four
-- devices needs no lock, and nearly all users have fewer. More than thirty concurrent statements would be needed to
-- exceed the limit, and the next registration would restore it.
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
