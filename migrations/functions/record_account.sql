-- Stores the webhooks of an account whose user must log in again: one for each endpoint that wants the type.
CREATE OR REPLACE FUNCTION record_account() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    event_subject text := 'accounts/' || NEW.user_id;
BEGIN
    INSERT INTO webhook_events (id, endpoint, type, user_id, subject, revision, data)
    SELECT uuid_v7(), endpoint.name, 'account.login_required', NEW.user_id, event_subject, webhook_revision(event_subject),
        to_jsonb(account)
    FROM webhook_endpoints AS endpoint
    CROSS JOIN account_summaries AS account
    WHERE 'account.login_required' = ANY (endpoint.types)
        AND account.user_id = NEW.user_id;
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER accounts_changed AFTER UPDATE OF state ON accounts
FOR EACH ROW WHEN (NEW.state <> OLD.state AND NEW.state = 'login_required') EXECUTE FUNCTION record_account();
