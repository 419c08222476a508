-- Returns a new UUID of version 7 with the time of the transaction (RFC 9562 §5.7).
CREATE OR REPLACE FUNCTION uuid_v7() RETURNS uuid
LANGUAGE sql VOLATILE
AS $$
    SELECT (
            lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0')
                || '7' || substring(gen_random_uuid()::text FROM 16 FOR 3) || substring(gen_random_uuid()::text FROM 20)
        )::uuid
$$;
