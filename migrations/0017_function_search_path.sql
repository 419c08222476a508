-- Functions look up tables in the schema in which they were created, whatever the search_path of their caller: a temporary table of the same
-- name cannot take the place of one of ours.
--
-- A function with a setting is not inlined. push_part_users is called for batches that are retried, each read by its key.
DO $$
DECLARE
    function regprocedure;
BEGIN
    FOR function IN
        SELECT oid
        FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace
            AND proname IN (
                'push_part_users', 'withdraw_oldest_devices', 'limit_added_devices', 'limit_returned_device', 'is_departure', 'user_has_left',
                'withdraw_departed_devices'
            )
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', function, current_schema());
    END LOOP;
END
$$;
