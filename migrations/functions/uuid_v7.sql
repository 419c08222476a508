-- Returns a new UUID of version 7 with the time of the transaction (RFC 9562 §5.7).
CREATE OR REPLACE FUNCTION uuid_v7() RETURNS uuid
LANGUAGE sql VOLATILE
AS $$
    -- A random UUID has the version 0100, which two more bits make 0111.
    SELECT encode(
            set_bit(
                set_bit(
                    overlay(
                        uuid_send(gen_random_uuid())
                        PLACING substring(int8send((extract(epoch FROM now()) * 1000)::bigint) FROM 3)
                        FROM 1
                    ),
                    52,
                    1
                ),
                53,
                1
            ),
            'hex'
        )::uuid
$$;
