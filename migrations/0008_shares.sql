-- Shares of Kakao Link messages, and what they led to.

CREATE TABLE shares (
    -- UUID version 7. It sorts by the time of creation, so that lists are paged by it.
    id                  uuid        PRIMARY KEY,
    -- The operator's name for shares that belong together.
    campaign            text,
    -- The id of a custom template; NULL for a default template and for a web page.
    template_id         bigint,
    -- The signed custom arguments, each a string, without the signature.
    args                jsonb       NOT NULL,
    -- The addresses that the share may lead to, in the order of its template.
    links               text[]      NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    -- The end of the signature. Links work beyond it.
    expires_at          timestamptz NOT NULL
);

CREATE INDEX shares_campaign ON shares (campaign, id) WHERE campaign IS NOT NULL;

-- The share that a callback's arguments are signed for, and the outcome of the check: `valid`, `expired` or `invalid`; NULL
-- for a callback without a signature.
ALTER TABLE link_callbacks ADD COLUMN share_id uuid;
ALTER TABLE link_callbacks ADD COLUMN signature text;

CREATE INDEX link_callbacks_share ON link_callbacks (share_id, id) WHERE share_id IS NOT NULL;

-- Returns the lowest UUID of version 7 with a time, so that a table can be cut at that time by its ids (RFC 9562 §5.7).
CREATE FUNCTION uuid_v7_floor(at timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE
AS $$
    SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid
$$;

-- A conversion counts once for each share, event and user.
CREATE TABLE share_conversions (
    share_id            uuid        NOT NULL,
    event               text        NOT NULL,
    user_id             bigint      NOT NULL,
    converted_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (share_id, event, user_id)
);

CREATE INDEX share_conversions_user_id ON share_conversions (user_id);

-- The visitors of the last minutes, so that a repeated landing does not count. Not logged: after a crash of PostgreSQL the
-- table is empty, and a repetition would count at worst.
CREATE UNLOGGED TABLE share_visits (
    share_id            uuid        NOT NULL,
    -- A keyed hash of address and browser.
    visitor             bytea       NOT NULL,
    counted_at          timestamptz NOT NULL,
    PRIMARY KEY (share_id, visitor)
);

CREATE INDEX share_visits_counted_at ON share_visits (counted_at);

-- Counters are spread over slots, rows of which each connection uses one, so that concurrent transactions do not wait for
-- each other. Readers add the slots. The free space lets an update stay on its page (HOT).

-- The events of a share, by kind and name: arrivals by chat type, landings, conversions by event.
CREATE TABLE share_counts (
    share_id            uuid        NOT NULL,
    -- `arrival`, `landing` or `conversion`.
    kind                text        NOT NULL,
    -- The chat type of an arrival, the event of a conversion; empty for a landing.
    name                text        NOT NULL,
    slot                smallint    NOT NULL,
    count               bigint      NOT NULL,
    PRIMARY KEY (share_id, kind, name, slot)
) WITH (fillfactor = 80);

-- Returns the numbers of what a share led to: arrivals by chat type, landings, conversions by event.
CREATE FUNCTION share_totals(share uuid, OUT arrivals jsonb, OUT landings bigint, OUT conversions jsonb)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT COALESCE(jsonb_object_agg(name, total) FILTER (WHERE kind = 'arrival'), '{}'),
        COALESCE(sum(total) FILTER (WHERE kind = 'landing'), 0)::bigint,
        COALESCE(jsonb_object_agg(name, total) FILTER (WHERE kind = 'conversion'), '{}')
    FROM (
        SELECT kind, name, sum(count)::bigint AS total
        FROM share_counts
        WHERE share_id = share
        GROUP BY kind, name
    ) AS counted
$$;

-- The events of all shares by hour, once for each dimension: `all`, `campaign`, `chat_type`, `template_id`, and `arg.NAME`
-- for each argument in `sharing.statistics_args`.
CREATE TABLE share_statistics (
    dimension           text        NOT NULL,
    -- The beginning of the hour in UTC.
    hour                timestamptz NOT NULL,
    -- 0 for past hours, whose slots are merged.
    slot                smallint    NOT NULL,
    -- The value in the dimension; empty for events without one.
    value               text        NOT NULL,
    arrivals            integer     NOT NULL,
    landings            integer     NOT NULL,
    conversions         integer     NOT NULL,
    PRIMARY KEY (dimension, hour, slot, value)
) WITH (fillfactor = 80);

-- Finds the counters that are not merged.
CREATE INDEX share_statistics_slots ON share_statistics (hour) WHERE slot > 0;

-- The merged counters by day in Seoul, so that a year of many values is read quickly. Other time zones and hours are read from
-- `share_statistics`.
CREATE TABLE share_statistics_days (
    dimension           text        NOT NULL,
    day                 date        NOT NULL,
    value               text        NOT NULL,
    arrivals            integer     NOT NULL,
    landings            integer     NOT NULL,
    conversions         integer     NOT NULL,
    PRIMARY KEY (dimension, day, value)
) WITH (fillfactor = 80);

-- Something that happened to a share.
CREATE TYPE share_event AS (
    -- As in `share_counts`.
    kind                text,
    name                text,
    -- NULL for a callback that was not signed.
    share_id            uuid,
    -- NULL for those of the share.
    template_id         bigint,
    args                jsonb,
    happened_at         timestamptz
);

-- Counts events, in the transaction that stores them. `statistics_args` are the arguments to count by.
--
-- A slot has at most 1,000 values of a dimension in an hour; further ones count as `other`, as do very long ones: custom
-- arguments come from phones. All rows are locked in the order of their keys, so that transactions do not deadlock.
CREATE FUNCTION count_share_events(events share_event[], statistics_args text[]) RETURNS void
LANGUAGE plpgsql STRICT
SET search_path FROM CURRENT
AS $$
DECLARE
    own_slot CONSTANT smallint := pg_backend_pid() % 16 + 1;
BEGIN
    INSERT INTO share_counts AS counted (share_id, kind, name, slot, count)
    SELECT event.share_id, event.kind, event.name, own_slot, count(*)
    FROM unnest(events) AS event
    JOIN shares AS share ON share.id = event.share_id
    GROUP BY event.share_id, event.kind, event.name
    ORDER BY event.share_id, event.kind, event.name
    ON CONFLICT (share_id, kind, name, slot) DO UPDATE
    SET count = counted.count + excluded.count;

    WITH event AS MATERIALIZED (
        SELECT event.kind,
            date_trunc('hour', event.happened_at, 'UTC') AS hour,
            CASE WHEN event.kind = 'arrival' THEN event.name END AS chat_type,
            share.campaign,
            COALESCE(event.template_id, share.template_id)::text AS template_id,
            COALESCE(event.args, share.args) AS args
        FROM unnest(events) AS event
        LEFT JOIN shares AS share ON share.id = event.share_id
    ),
    valued AS (
        SELECT kind, hour, dimension, value
        FROM event
        CROSS JOIN LATERAL (
            VALUES ('all', NULL), ('campaign', campaign), ('chat_type', chat_type), ('template_id', template_id)
        ) AS place (dimension, value)
        UNION ALL
        SELECT kind, hour, 'arg.' || name, args ->> name
        FROM event
        CROSS JOIN unnest(statistics_args) AS name
    ),
    counted AS (
        SELECT dimension,
            hour,
            CASE WHEN length(value) > 100 THEN 'other' ELSE COALESCE(value, '') END AS value,
            count(*) FILTER (WHERE kind = 'arrival') AS arrivals,
            count(*) FILTER (WHERE kind = 'landing') AS landings,
            count(*) FILTER (WHERE kind = 'conversion') AS conversions
        FROM valued
        GROUP BY 1, 2, 3
    ),
    compared AS (
        SELECT counted.*,
            EXISTS (
                SELECT
                FROM share_statistics AS stored
                WHERE stored.dimension = counted.dimension
                    AND stored.hour = counted.hour
                    AND stored.slot = own_slot
                    AND stored.value = counted.value
            ) AS is_stored
        FROM counted
    ),
    room AS (
        SELECT dimension,
            hour,
            1000 - (
                SELECT count(*)
                FROM share_statistics AS stored
                WHERE stored.dimension = compared.dimension
                    AND stored.hour = compared.hour
                    AND stored.slot = own_slot
            ) AS values
        FROM compared
        WHERE NOT is_stored
        GROUP BY dimension, hour
    ),
    ranked AS (
        SELECT compared.*,
            row_number() OVER (PARTITION BY dimension, hour, is_stored ORDER BY value) AS place
        FROM compared
    )
    INSERT INTO share_statistics AS stored (dimension, hour, slot, value, arrivals, landings, conversions)
    SELECT dimension, hour, own_slot, shown, sum(arrivals), sum(landings), sum(conversions)
    FROM ranked
    LEFT JOIN room USING (dimension, hour)
    CROSS JOIN LATERAL (
        SELECT CASE WHEN is_stored OR place <= room.values THEN value ELSE 'other' END AS shown
    ) AS choice
    GROUP BY dimension, hour, shown
    ORDER BY dimension, hour, shown
    ON CONFLICT (dimension, hour, slot, value) DO UPDATE
    SET arrivals = stored.arrivals + excluded.arrivals,
        landings = stored.landings + excluded.landings,
        conversions = stored.conversions + excluded.conversions;
END
$$;
