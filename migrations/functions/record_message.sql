-- Stores the webhooks of a message that has ended, with the message as it is now: one for each endpoint that wants the type.
CREATE OR REPLACE FUNCTION record_message() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    event_type text := 'message.' || NEW.state;
    event_subject text := 'messages/' || NEW.id;
BEGIN
    INSERT INTO webhook_events (id, endpoint, type, user_id, subject, revision, data)
    SELECT uuid_v7(), endpoint.name, event_type, NEW.sender, event_subject, webhook_revision(event_subject), to_jsonb(message)
    FROM webhook_endpoints AS endpoint
    CROSS JOIN message_summaries AS message
    WHERE event_type = ANY (endpoint.types)
        AND message.id = NEW.id;
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER messages_changed AFTER UPDATE OF state ON messages
FOR EACH ROW WHEN (NEW.state <> OLD.state AND NEW.state IN ('done', 'canceled', 'expired'))
EXECUTE FUNCTION record_message();
