-- Returns the lowest UUID of version 7 with a time since 1970, so that a table can be cut at that time by its ids (RFC 9562
-- §5.7).
CREATE OR REPLACE FUNCTION uuid_v7_floor(at timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT
SET search_path FROM CURRENT
AS $$
    SELECT (lpad(to_hex(GREATEST(extract(epoch FROM at) * 1000, 0)::bigint), 12, '0') || '70008000000000000000')::uuid
$$;
