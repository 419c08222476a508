-- Returns the id that stands for a transaction in the columns `event_xid`, in cursors and in marks.
--
-- It names no table, so it needs no fixed search_path. With one, it would not be inlined.
CREATE OR REPLACE FUNCTION webhook_xid(transaction xid8, xid_offset bigint) RETURNS xid8
LANGUAGE sql IMMUTABLE
AS $$
    SELECT (transaction::text::bigint + xid_offset)::text::xid8
$$;
