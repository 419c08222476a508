-- Returns the numbers of some events by dimension, hour and value. Custom arguments come from phones, so very long values
-- count as `other`.
CREATE OR REPLACE FUNCTION share_event_statistics(events share_events[])
RETURNS TABLE (dimension text, hour timestamptz, value text, arrivals integer, landings integer, conversions integer)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT place.dimension,
        date_trunc('hour', event.happened_at, 'UTC'),
        CASE WHEN length(place.value) > 100 THEN 'other' ELSE COALESCE(place.value, '') END,
        count(*) FILTER (WHERE event.kind = 'arrival')::integer,
        count(*) FILTER (WHERE event.kind = 'landing')::integer,
        count(*) FILTER (WHERE event.kind = 'conversion')::integer
    FROM unnest(events) AS event
    LEFT JOIN shares AS share ON share.id = event.share_id
    CROSS JOIN LATERAL (
        VALUES ('all', NULL),
            ('campaign', share.campaign),
            ('chat_type', CASE WHEN event.kind = 'arrival' THEN event.name END),
            ('template_id', COALESCE(event.template_id, share.template_id)::text)
        UNION ALL
        SELECT 'arg.' || arg.key, arg.value FROM jsonb_each_text(event.args) AS arg
    ) AS place (dimension, value)
    GROUP BY 1, 2, 3
$$;
