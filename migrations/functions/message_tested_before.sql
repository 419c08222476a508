-- Returns when a message was last sent to a tester before a push of it began; NULL if it was not, or if the test has been removed.
CREATE OR REPLACE FUNCTION message_tested_before(given_message text, given_version text, begun timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT max(started_at)
    FROM pushes
    WHERE to_testers
        AND message = given_message
        AND message_version = given_version
        AND started_at <= COALESCE(begun, 'infinity')
        AND push_users_sent(id) > 0
$$;
