-- Counts up to `step` events, and deletes them. Returns their number; 0 also while another server counts.
--
-- An hour has at most 1,000 values of a dimension; further ones count as `other`, because phones choose custom arguments.
CREATE OR REPLACE FUNCTION merge_share_events(step integer) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    merged share_events[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(18) THEN
        RETURN 0;
    END IF;
    WITH removed AS (
        DELETE FROM share_events
        WHERE id IN (SELECT id FROM share_events ORDER BY id LIMIT step)
        RETURNING share_events
    )
    SELECT array_agg(removed.share_events) INTO merged FROM removed;
    IF merged IS NULL THEN
        RETURN 0;
    END IF;

    INSERT INTO share_counts AS counted (share_id, kind, name, count)
    SELECT event.share_id, event.kind, event.name, count(*)
    FROM unnest(merged) AS event
    WHERE event.share_id IS NOT NULL
    GROUP BY event.share_id, event.kind, event.name
    ON CONFLICT (share_id, kind, name) DO UPDATE
    SET count = counted.count + excluded.count;

    WITH counted AS (
        SELECT *
        FROM share_event_statistics(merged)
    ),
    compared AS (
        SELECT counted.*,
            EXISTS (
                SELECT
                FROM share_statistics AS stored
                WHERE stored.dimension = counted.dimension
                    AND stored.hour = counted.hour
                    AND stored.value = counted.value
            ) AS is_stored
        FROM counted
    ),
    room AS (
        SELECT dimension,
            hour,
            1000 - (
                SELECT count(*)
                FROM share_statistics AS stored
                WHERE stored.dimension = compared.dimension
                    AND stored.hour = compared.hour
            ) AS values
        FROM compared
        WHERE NOT is_stored
        GROUP BY dimension, hour
    ),
    placed AS (
        SELECT dimension,
            hour,
            CASE
                WHEN is_stored OR row_number() OVER (PARTITION BY dimension, hour, is_stored ORDER BY value) <= room.values
                    THEN value
                ELSE 'other'
            END AS value,
            arrivals,
            landings,
            conversions
        FROM compared
        LEFT JOIN room USING (dimension, hour)
    ),
    by_hour AS (
        INSERT INTO share_statistics AS stored (dimension, hour, value, arrivals, landings, conversions)
        SELECT dimension, hour, value, sum(arrivals), sum(landings), sum(conversions)
        FROM placed
        GROUP BY dimension, hour, value
        ON CONFLICT (dimension, hour, value) DO UPDATE
        SET arrivals = stored.arrivals + excluded.arrivals,
            landings = stored.landings + excluded.landings,
            conversions = stored.conversions + excluded.conversions
    )
    INSERT INTO share_statistics_days AS stored (dimension, day, value, arrivals, landings, conversions)
    SELECT dimension, (hour AT TIME ZONE 'Asia/Seoul')::date AS day, value, sum(arrivals), sum(landings), sum(conversions)
    FROM placed
    GROUP BY dimension, day, value
    ON CONFLICT (dimension, day, value) DO UPDATE
    SET arrivals = stored.arrivals + excluded.arrivals,
        landings = stored.landings + excluded.landings,
        conversions = stored.conversions + excluded.conversions;
    RETURN cardinality(merged);
END
$$;
