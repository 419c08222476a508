-- Returns the state of a push as operators see it: advertising that waits for its hours is not being prepared, but scheduled for
-- them.
--
-- It names no table, so it needs no fixed search_path. With one, it would not be inlined.
CREATE OR REPLACE FUNCTION push_shown_state(
    state               text,
    kind                text,
    to_testers          boolean,
    -- Whether advertising may be sent at present.
    advertising_is_sent boolean
) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$
    SELECT CASE
            WHEN state = 'preparing' AND kind = 'advertising' AND NOT to_testers AND NOT advertising_is_sent THEN 'scheduled'
            ELSE state
        END
$$;
