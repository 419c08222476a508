-- Keeps a user to 100 devices when a withdrawn device is registered again: see `withdraw_oldest_devices`.
CREATE OR REPLACE FUNCTION limit_returned_device() RETURNS trigger
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

CREATE OR REPLACE TRIGGER devices_returned AFTER UPDATE OF withdrawn ON devices
FOR EACH ROW WHEN (OLD.withdrawn AND NOT NEW.withdrawn) EXECUTE FUNCTION limit_returned_device();
