-- Returns whether two operator keys are the same, or one of them was created with the other, directly or through further keys.
-- Keys that were revoked count too.
CREATE OR REPLACE FUNCTION operator_keys_are_related(one uuid, other uuid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH RECURSIVE creators AS (
        SELECT start, start AS id
        FROM (VALUES (one), (other)) AS given (start)
        UNION
        SELECT creators.start, operator_keys.created_by_key
        FROM creators
        JOIN operator_keys USING (id)
    )
    SELECT EXISTS (
        SELECT 1
        FROM creators
        WHERE (start, id) IN ((one, other), (other, one))
    )
$$;
