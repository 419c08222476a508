-- Webhooks after the restoration of a dump, and the audit log of servers whose clocks differ.

-- The ids of transactions begin anew in another cluster. The ids that events have already are then those of transactions to come,
-- and new events would come before the cursors. The offset is added to the ids of new events, so that they follow all others.
ALTER TABLE webhook_endpoint ADD COLUMN xid_offset bigint NOT NULL DEFAULT 0;

-- Returns the id that stands for a transaction in the columns `event_xid`, in cursors and in marks.
CREATE FUNCTION webhook_xid(transaction xid8, xid_offset bigint) RETURNS xid8
LANGUAGE sql IMMUTABLE
RETURN (transaction::text::bigint + xid_offset)::text::xid8;

-- Returns the id below which no event can appear any more, since all transactions before it have ended; NULL without an endpoint.
CREATE FUNCTION webhook_horizon() RETURNS xid8
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT webhook_xid(pg_snapshot_xmin(pg_current_snapshot()), xid_offset)
    FROM webhook_endpoint
$$;

-- As before, with the offset.

CREATE OR REPLACE FUNCTION record_event() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF EXISTS (SELECT FROM webhook_endpoint) THEN
        NEW.event_xid := (SELECT webhook_xid(pg_current_xact_id(), xid_offset) FROM webhook_endpoint);
        NEW.event_at := now();
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION record_withdrawal() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO device_withdrawals (user_id, device_id, push_type, cause, event_xid)
    SELECT NEW.user_id, NEW.device_id, NEW.push_type, NEW.withdrawal_cause, webhook_xid(pg_current_xact_id(), xid_offset)
    FROM webhook_endpoint;
    RETURN NULL;
END
$$;

-- Returns the highest id that an event, a cursor or a mark has; NULL if there is none. Each table has an index for it.
CREATE FUNCTION webhook_last_xid() RETURNS xid8
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

-- As before. The id of a record has the time of the server's clock, and `at` that of the database's: up to an hour apart.
CREATE OR REPLACE FUNCTION find_audit_records(
    key                 uuid,
    operation_filter    text,
    owner               bigint,
    since               timestamptz,
    until               timestamptz,
    -- The last record of the previous page.
    before              uuid,
    maximum             bigint
) RETURNS SETOF audit_records
LANGUAGE plpgsql STABLE ROWS 100
SET search_path FROM CURRENT
-- The best index depends on the filters, which a cached plan does not know.
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT *
    FROM audit_records
    WHERE (key IS NULL OR key_id = key)
        AND (operation_filter IS NULL OR operation = operation_filter)
        AND (owner IS NULL OR user_id = owner)
        AND (since IS NULL OR at >= since)
        AND (until IS NULL OR at < until)
        AND id >= COALESCE(uuid_v7_floor(since - interval '1 hour'), '00000000-0000-0000-0000-000000000000')
        AND id <= COALESCE(uuid_v7_floor(until + interval '1 hour'), 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        AND id < COALESCE(before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    ORDER BY id DESC
    LIMIT maximum;
END
$$;
