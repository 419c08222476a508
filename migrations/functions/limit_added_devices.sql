-- Keeps users to 100 devices when devices are inserted: see `withdraw_oldest_devices`.
CREATE OR REPLACE FUNCTION limit_added_devices() RETURNS trigger
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

-- Fires only for inserted rows, so that a repeated registration costs nothing more.
CREATE OR REPLACE TRIGGER devices_added AFTER INSERT ON devices
REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION limit_added_devices();
