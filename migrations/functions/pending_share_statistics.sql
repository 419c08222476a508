-- Returns the events of a dimension that are not counted yet, by hour and value.
CREATE OR REPLACE FUNCTION pending_share_statistics(wanted text)
RETURNS TABLE (hour timestamptz, value text, arrivals integer, landings integer, conversions integer)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT hour, value, arrivals, landings, conversions
    FROM share_event_statistics(ARRAY(SELECT event FROM share_events AS event))
    WHERE dimension = wanted
$$;
