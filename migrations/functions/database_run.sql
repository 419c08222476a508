-- Returns what identifies this run of PostgreSQL: its timeline, its start, and the last time at which it discarded its statistics, as it
-- does after a crash. Commits can be lost only between two runs: in a failover to a standby that lagged, or in a crash with
-- `synchronous_commit = off`.
--
-- A PostgreSQL that does not tell its timeline to plain roles is identified by the rest (`doctor` says so).
CREATE OR REPLACE FUNCTION database_run() RETURNS text
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    run text := concat_ws(
        ' ',
        extract(epoch FROM pg_postmaster_start_time()),
        extract(epoch FROM pg_stat_get_bgwriter_stat_reset_time())
    );
BEGIN
    -- `pg_control_checkpoint()` has the old timeline until the first checkpoint after a promotion.
    RETURN concat(left(pg_walfile_name(pg_current_wal_lsn()), 8), ' ', run);
EXCEPTION
    WHEN feature_not_supported OR undefined_function OR insufficient_privilege OR object_not_in_prerequisite_state THEN
        RETURN run;
END
$$;
