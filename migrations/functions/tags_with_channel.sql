-- Returns the tags of a device with the tag of the users who have added a KakaoTalk channel, or without it.
--
-- Volatile, so that it sees what other transactions have committed while its statement waited for the lock of the device.
CREATE OR REPLACE FUNCTION tags_with_channel(given text[], app_user bigint, channel_tag text) RETURNS text[]
LANGUAGE sql VOLATILE
SET search_path FROM CURRENT
AS $$
    SELECT array_remove(given, channel_tag) || CASE WHEN EXISTS (
            SELECT 1
            FROM channel_relations
            WHERE id_type = 'app_user_id'
                AND id = app_user::text
                AND relation = 'ADDED'
        ) THEN ARRAY[channel_tag] ELSE '{}' END
$$;
