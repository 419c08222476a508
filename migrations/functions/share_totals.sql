-- Returns what some shares led to: arrivals by chat type, landings, conversions by event. Shares without events are missing.
CREATE OR REPLACE FUNCTION share_totals(ids uuid[])
RETURNS TABLE (share_id uuid, arrivals jsonb, landings bigint, conversions jsonb)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT total.share_id,
        COALESCE(jsonb_object_agg(total.name, total.count) FILTER (WHERE total.kind = 'arrival'), '{}'),
        COALESCE(sum(total.count) FILTER (WHERE total.kind = 'landing'), 0)::bigint,
        COALESCE(jsonb_object_agg(total.name, total.count) FILTER (WHERE total.kind = 'conversion'), '{}')
    FROM (
        SELECT stored.share_id, stored.kind, stored.name, sum(stored.count)::bigint AS count
        FROM (
            SELECT counted.share_id, counted.kind, counted.name, counted.count
            FROM share_counts AS counted
            WHERE counted.share_id = ANY (ids)
            UNION ALL
            SELECT pending.share_id, pending.kind, pending.name, 1
            FROM share_events AS pending
            WHERE pending.share_id = ANY (ids)
        ) AS stored
        GROUP BY stored.share_id, stored.kind, stored.name
    ) AS total
    GROUP BY total.share_id
$$;
