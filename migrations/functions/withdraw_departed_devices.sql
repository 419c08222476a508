-- Withdraws the devices of a user who has left the app, except those that were registered since. Returns their number.
--
-- They are withdrawn as of the departure: a registration that followed it is later, also if PostgreSQL has lost both and the departure
-- is stored again first.
--
-- A registration that was authorized before its user left must not survive, however late it or the notice is stored. The
-- lock is that of `user_has_left`.
CREATE OR REPLACE FUNCTION withdraw_departed_devices(owner bigint, left_at timestamptz) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    devices_withdrawn bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(17, hashint8(owner));
    -- In the order of their keys, as by every statement that locks devices.
    WITH held AS (
        SELECT device_id, push_type
        FROM devices
        WHERE user_id = owner
            AND NOT withdrawn
            AND (updated_at <= left_at OR authorized_at <= left_at)
        ORDER BY device_id, push_type
        FOR UPDATE
    )
    UPDATE devices AS device
    SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
        = (SELECT * FROM withdrawal(device, 'user_left', GREATEST(device.updated_at, left_at)))
    FROM held
    WHERE device.user_id = owner
        AND (device.device_id, device.push_type) = (held.device_id, held.push_type);
    GET DIAGNOSTICS devices_withdrawn = ROW_COUNT;
    INSERT INTO former_devices AS former (user_id, device_id, push_type, withdrawn_at)
    VALUES (owner, '', '', left_at)
    ON CONFLICT (user_id, device_id, push_type) DO UPDATE
    SET withdrawn_at = GREATEST(former.withdrawn_at, excluded.withdrawn_at);
    RETURN devices_withdrawn;
END
$$;
