-- Deletes the relations to channels of a user who has left the app, except those that have changed since. Returns their number.
--
-- The lock is that of `user_has_left`: if an event about a channel and a notice of the departure are concurrent, the second one sees the
-- first. It is acquired before the rows of relations and devices, so that the two do not deadlock.
CREATE OR REPLACE FUNCTION delete_departed_relations(owner bigint, left_at timestamptz) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    relations_deleted bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(17, hashint8(owner));
    -- Kakao's clock may be ahead.
    DELETE FROM channel_relations
    WHERE id_type = 'app_user_id'
        AND id = owner::text
        AND (updated_at <= left_at OR stored_at <= left_at);
    GET DIAGNOSTICS relations_deleted = ROW_COUNT;
    RETURN relations_deleted;
END
$$;
