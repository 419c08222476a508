-- Returns the probe of a push while its outcome is open: until Kakao has accepted the message for a further user, or
-- all parts of the rejected batch have ended.
CREATE OR REPLACE FUNCTION push_open_probe(push uuid, probe integer, probe_sent bigint) RETURNS integer
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT push_open_probe.probe
    WHERE push_users_sent(push) <= push_open_probe.probe_sent
        AND EXISTS (
            SELECT 1
            FROM push_batches
            WHERE push_id = push
                AND origin = push_open_probe.probe
                AND state IN ('waiting', 'sending')
        )
$$;
