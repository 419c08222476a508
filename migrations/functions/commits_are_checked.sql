-- Returns whether all servers with a lease of a queue have compared this run of PostgreSQL with what they know, and those whose lease is
-- lost had the time to store one again. Until then nothing of the queue is claimed: its state may be older than what a server has done.
--
-- In PL/pgSQL, which plans the query once a session: a function in SQL plans it with each call, and each claim of batches calls it.
CREATE OR REPLACE FUNCTION commits_are_checked(of_queue text) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN run_wait() = interval '0'
        AND NOT EXISTS (
            SELECT 1
            FROM work_leases
            WHERE queue = of_queue
                AND checked_run <> (SELECT database_run())
        );
END
$$;
