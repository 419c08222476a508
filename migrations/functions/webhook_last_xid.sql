-- Returns the highest id that an event, a cursor or a mark has; NULL if there is none. Each table has an index for it.
CREATE OR REPLACE FUNCTION webhook_last_xid() RETURNS xid8
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT last.xid
    FROM (
        (SELECT event_xid FROM link_callbacks WHERE event_xid IS NOT NULL ORDER BY event_xid DESC LIMIT 1)
        UNION ALL
        (SELECT event_xid FROM events WHERE event_xid IS NOT NULL ORDER BY event_xid DESC LIMIT 1)
        UNION ALL
        (SELECT event_xid FROM pushes WHERE event_xid IS NOT NULL ORDER BY event_xid DESC LIMIT 1)
        UNION ALL
        (SELECT event_xid FROM messages WHERE event_xid IS NOT NULL ORDER BY event_xid DESC LIMIT 1)
        UNION ALL
        (SELECT event_xid FROM accounts WHERE event_xid IS NOT NULL ORDER BY event_xid DESC LIMIT 1)
        UNION ALL
        (SELECT event_xid FROM device_withdrawals ORDER BY event_xid DESC LIMIT 1)
        UNION ALL
        (SELECT event_xid FROM sender WHERE event_xid IS NOT NULL)
        UNION ALL
        (SELECT xid FROM webhook_cursors)
        UNION ALL
        (SELECT next_xid FROM webhook_marks ORDER BY marked_at DESC LIMIT 1)
    ) AS last (xid)
    ORDER BY last.xid DESC
    LIMIT 1
$$;
