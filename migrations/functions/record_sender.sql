-- Stores the webhooks of a change of the sender, with its state: one for each endpoint that wants the type.
CREATE OR REPLACE FUNCTION record_sender() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    sender_state text := CASE
            WHEN NEW.stopped_at IS NOT NULL THEN 'stopped'
            WHEN NEW.halted_at IS NOT NULL THEN 'halted'
            ELSE 'resumed'
        END;
BEGIN
    INSERT INTO webhook_events (id, endpoint, type, subject, revision, data)
    SELECT uuid_v7(), name, 'sender.' || sender_state, 'sender', webhook_revision('sender'),
        jsonb_build_object(
            'state', sender_state, 'reason', COALESCE(NEW.reason, NEW.halt_reason), 'by', NEW.stopped_by, 'at', now()
        )
    FROM webhook_endpoints
    WHERE 'sender.' || sender_state = ANY (types);
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER sender_changed AFTER UPDATE OF stopped_at, reason, stopped_by, halted_at, halt_reason, commits_lost_at ON sender
FOR EACH ROW WHEN (NEW IS DISTINCT FROM OLD) EXECUTE FUNCTION record_sender();
