-- Returns the revision of the next event of an object. It never goes back, also if the clock does, or the table was restored from a dump:
-- a receiver ignores what is older than what it knows.
CREATE OR REPLACE FUNCTION webhook_revision(event_subject text) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN GREATEST(
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
        (SELECT max(revision) + 1 FROM webhook_events WHERE subject = event_subject AND data IS NOT NULL)
    );
END
$$;
