-- Returns whether a change of a device is stored, or a later one: a registration, a withdrawal, or what withdraws all devices of
-- the user. Changes of one device are ordered by their times, which are those of the database that committed them.
CREATE OR REPLACE FUNCTION device_change_is_stored(owner bigint, device text, type text, changed_at timestamptz) RETURNS boolean
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT EXISTS (
            SELECT 1
            FROM devices
            WHERE (user_id, device_id, push_type) = (owner, device, type)
                AND updated_at >= changed_at
        )
        OR EXISTS (
            SELECT 1
            FROM former_devices
            WHERE user_id = owner
                AND (device_id, push_type) IN ((device, type), ('', ''))
                AND withdrawn_at >= changed_at
        )
        OR EXISTS (SELECT 1 FROM erased_users WHERE user_id = owner AND erased_at >= changed_at)
$$;
