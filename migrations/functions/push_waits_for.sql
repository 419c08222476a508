-- Returns those excluded pushes that a push has to wait for.
CREATE OR REPLACE FUNCTION push_waits_for(excluded_pushes uuid[], prepared_at timestamptz, finished_at timestamptz) RETURNS uuid[]
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT ARRAY(
        SELECT id
        FROM unnest(excluded_pushes) AS excluded (id)
        WHERE prepared_at IS NULL
            AND finished_at IS NULL
            AND NOT push_is_settled(id)
    )
$$;
