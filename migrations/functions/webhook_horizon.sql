-- Returns the id below which no event can appear any more, since all transactions before it have ended; NULL without an endpoint.
CREATE OR REPLACE FUNCTION webhook_horizon() RETURNS xid8
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT webhook_xid(pg_snapshot_xmin(pg_current_snapshot()), xid_offset)
    FROM webhook_endpoint
$$;
