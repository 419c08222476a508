-- Stores the webhooks of a push whose change is an event, with the push as it is now: one for each endpoint that wants the type.
--
-- The end of a push is two events if it did not reach all of its users, or if they are not all known: it ended before its audience was
-- prepared. A cancellation has only the second one. That has an object of its own: the users. Otherwise a receiver would ignore one of the
-- two, since it ignores what is older than what it knows of an object.
CREATE OR REPLACE FUNCTION record_push() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO webhook_events (id, endpoint, type, subject, revision, data)
    SELECT uuid_v7(), endpoint.name, event.type, event.subject, webhook_revision(event.subject), to_jsonb(push)
    FROM webhook_endpoints AS endpoint
    CROSS JOIN push_summaries AS push
    CROSS JOIN LATERAL (
        SELECT 'push.' || NEW.state AS type, 'pushes/' || NEW.id AS subject
        WHERE NEW.state <> 'canceled'
        UNION ALL
        SELECT 'push.unreached', 'pushes/' || NEW.id || '/users'
        WHERE NEW.state IN ('done', 'canceled', 'expired')
            AND (
                push.users_skipped > 0
                OR push.users_excluded > 0
                OR push.users_without_consent > 0
                OR push.users_failed > 0
                OR push.users_unsent > 0
                OR push.users_uncertain > 0
                OR push.users_unanswered > 0
                OR NOT push.is_prepared
            )
    ) AS event
    WHERE event.type = ANY (endpoint.types)
        AND push.id = NEW.id;
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER pushes_created AFTER INSERT ON pushes
FOR EACH ROW WHEN (NEW.state = 'proposed') EXECUTE FUNCTION record_push();

CREATE OR REPLACE TRIGGER pushes_changed AFTER UPDATE OF state ON pushes
FOR EACH ROW WHEN (NEW.state <> OLD.state AND NEW.state IN ('proposed', 'done', 'halted', 'expired', 'canceled'))
EXECUTE FUNCTION record_push();
