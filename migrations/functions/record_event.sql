-- Gives a row the transaction and the time of its latest change that is an event, if there is a webhook endpoint. Each trigger
-- below names the changes of a table that are events.
CREATE OR REPLACE FUNCTION record_event() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF EXISTS (SELECT FROM webhook_endpoint) THEN
        NEW.event_xid := (SELECT webhook_xid(pg_current_xact_id(), xid_offset) FROM webhook_endpoint);
        NEW.event_at := now();
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE TRIGGER pushes_created BEFORE INSERT ON pushes
FOR EACH ROW WHEN (NEW.state = 'proposed') EXECUTE FUNCTION record_event();

CREATE OR REPLACE TRIGGER pushes_changed BEFORE UPDATE OF state ON pushes
FOR EACH ROW WHEN (NEW.state <> OLD.state AND NEW.state IN ('proposed', 'done', 'halted', 'expired'))
EXECUTE FUNCTION record_event();

CREATE OR REPLACE TRIGGER messages_changed BEFORE UPDATE OF state ON messages
FOR EACH ROW WHEN (NEW.state <> OLD.state) EXECUTE FUNCTION record_event();

CREATE OR REPLACE TRIGGER accounts_changed BEFORE UPDATE OF state ON accounts
FOR EACH ROW WHEN (NEW.state <> OLD.state AND NEW.state = 'login_required') EXECUTE FUNCTION record_event();

CREATE OR REPLACE TRIGGER sender_changed BEFORE UPDATE OF stopped_at, reason, stopped_by, halted_at, halt_reason, commits_lost_at ON sender
FOR EACH ROW WHEN (NEW IS DISTINCT FROM OLD) EXECUTE FUNCTION record_event();
