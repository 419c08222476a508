-- Stores the webhooks of the withdrawal of a device, which is deleted once Kakao has deregistered it: one for each endpoint that wants
-- the type.
CREATE OR REPLACE FUNCTION record_withdrawal() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    event_subject text := concat_ws('/', 'devices', NEW.user_id, NEW.push_type, NEW.device_id);
BEGIN
    INSERT INTO webhook_events (id, endpoint, type, user_id, subject, revision, data)
    SELECT uuid_v7(), name, 'device.withdrawn', NEW.user_id, event_subject, webhook_revision(event_subject),
        jsonb_build_object(
            'user_id', NEW.user_id, 'device_id', NEW.device_id, 'push_type', NEW.push_type, 'cause', NEW.withdrawal_cause,
            'withdrawn_at', now()
        )
    FROM webhook_endpoints
    WHERE 'device.withdrawn' = ANY (types);
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER devices_withdrawn AFTER UPDATE OF withdrawn ON devices
FOR EACH ROW WHEN (NEW.withdrawn AND NOT OLD.withdrawn) EXECUTE FUNCTION record_withdrawal();
