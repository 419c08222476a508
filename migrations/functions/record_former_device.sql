-- Records when a device was withdrawn that is deleted because Kakao has deregistered it.
CREATE OR REPLACE FUNCTION record_former_device() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO former_devices AS former (user_id, device_id, push_type, withdrawn_at)
    VALUES (OLD.user_id, OLD.device_id, OLD.push_type, OLD.updated_at)
    ON CONFLICT (user_id, device_id, push_type) DO UPDATE
    SET withdrawn_at = GREATEST(former.withdrawn_at, excluded.withdrawn_at);
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER devices_deregistered AFTER DELETE ON devices
FOR EACH ROW WHEN (OLD.withdrawn) EXECUTE FUNCTION record_former_device();
