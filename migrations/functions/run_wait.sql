-- Returns how long nothing is claimed yet because this run of PostgreSQL is new: in a failover, the lease of a server may be lost too, and
-- the others do not know of it. A server renews its lease every five seconds, and stores a lost one again, with the run that it has compared.
--
-- Zero before any server has seen a run.
CREATE OR REPLACE FUNCTION run_wait() RETURNS interval
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN (
        SELECT CASE
                WHEN run <> database_run() THEN interval '6 seconds'
                -- Not if the clock was set back.
                WHEN run_seen_at BETWEEN now() - interval '6 seconds' AND now() THEN run_seen_at + interval '6 seconds' - now()
                ELSE interval '0'
            END
        FROM sender
    );
END
$$;
