-- Returns when a message was last sent to a tester; NULL if it was not, or if the test has been removed.
CREATE OR REPLACE FUNCTION message_last_tested_at(given_message text, given_version text) RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT max(started_at)
    FROM pushes
    WHERE to_testers
        AND message = given_message
        AND message_version = given_version
        AND push_users_sent(id) > 0
$$;
