-- Stores the webhooks of a push whose change is an event, with the push as it is now: one for each endpoint that wants the type.
CREATE OR REPLACE FUNCTION record_push() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    event_type text := 'push.' || NEW.state;
    event_subject text := 'pushes/' || NEW.id;
BEGIN
    INSERT INTO webhook_events (id, endpoint, type, subject, revision, data)
    SELECT uuid_v7(), endpoint.name, event_type, event_subject, webhook_revision(event_subject), to_jsonb(push)
    FROM webhook_endpoints AS endpoint
    CROSS JOIN push_summaries AS push
    WHERE event_type = ANY (endpoint.types)
        AND push.id = NEW.id;
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER pushes_created AFTER INSERT ON pushes
FOR EACH ROW WHEN (NEW.state = 'proposed') EXECUTE FUNCTION record_push();

CREATE OR REPLACE TRIGGER pushes_changed AFTER UPDATE OF state ON pushes
FOR EACH ROW WHEN (NEW.state <> OLD.state AND NEW.state IN ('proposed', 'done', 'halted', 'expired'))
EXECUTE FUNCTION record_push();
