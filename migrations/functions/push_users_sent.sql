-- Returns the number of users of a push whose batches were sent.
CREATE OR REPLACE FUNCTION push_users_sent(push uuid) RETURNS bigint
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT COALESCE(sum(users), 0)::bigint
    FROM push_counts
    WHERE push_id = push
        AND state = 'sent'
$$;
