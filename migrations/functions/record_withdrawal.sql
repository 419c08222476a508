-- Records the withdrawal of a device as an event with a row of its own, if there is a webhook endpoint: the device is deleted
-- once Kakao has deregistered it.
CREATE OR REPLACE FUNCTION record_withdrawal() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO device_withdrawals (user_id, device_id, push_type, cause, event_xid)
    SELECT NEW.user_id, NEW.device_id, NEW.push_type, NEW.withdrawal_cause, webhook_xid(pg_current_xact_id(), xid_offset)
    FROM webhook_endpoint;
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER devices_withdrawn AFTER UPDATE OF withdrawn ON devices
FOR EACH ROW WHEN (NEW.withdrawn AND NOT OLD.withdrawn) EXECUTE FUNCTION record_withdrawal();
