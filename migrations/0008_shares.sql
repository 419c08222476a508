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

-- Returns the lowest UUID of version 7 with a time since 1970, so that a table can be cut at that time by its ids (RFC 9562
-- §5.7).
CREATE FUNCTION uuid_v7_floor(at timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT
SET search_path FROM CURRENT
AS $$
    SELECT (lpad(to_hex(GREATEST(extract(epoch FROM at) * 1000, 0)::bigint), 12, '0') || '70008000000000000000')::uuid
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

-- Events of shares that are not counted yet, one row each: they are appended in the transactions that store callbacks, visits
-- and conversions, which therefore never wait for a counter. `merge_share_events` counts and deletes them, within seconds.
CREATE TABLE share_events (
    id                  bigint      GENERATED ALWAYS AS IDENTITY (CACHE 100) PRIMARY KEY,
    -- `arrival`, `landing` or `conversion`.
    kind                text        NOT NULL,
    -- The chat type of an arrival, the event of a conversion; empty for a landing.
    name                text        NOT NULL,
    -- NULL for a callback that was not signed.
    share_id            uuid,
    template_id         bigint,
    -- The values of the arguments in `sharing.statistics_args`, each a text of at most 101 characters, or null.
    args                jsonb,
    happened_at         timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

-- The counted events of a share, by kind and name.
CREATE TABLE share_counts (
    share_id            uuid        NOT NULL,
    kind                text        NOT NULL,
    name                text        NOT NULL,
    count               bigint      NOT NULL,
    PRIMARY KEY (share_id, kind, name)
) WITH (fillfactor = 80);

-- The counted events of all shares by hour, once for each dimension: `all`, `campaign`, `chat_type`, `template_id`, and
-- `arg.NAME` for each argument in `sharing.statistics_args`.
CREATE TABLE share_statistics (
    dimension           text        NOT NULL,
    -- The beginning of the hour in UTC.
    hour                timestamptz NOT NULL,
    -- The value in the dimension; empty for events without one.
    value               text        NOT NULL,
    arrivals            integer     NOT NULL,
    landings            integer     NOT NULL,
    conversions         integer     NOT NULL,
    PRIMARY KEY (dimension, hour, value)
) WITH (fillfactor = 80);

-- The same by day in Seoul, so that a year of many values is read quickly. Other time zones and hours are read from
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

-- Returns the numbers of some events by dimension, hour and value. Custom arguments come from phones, so very long values
-- count as `other`.
CREATE FUNCTION share_event_statistics(events share_events[])
RETURNS TABLE (dimension text, hour timestamptz, value text, arrivals integer, landings integer, conversions integer)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT place.dimension,
        date_trunc('hour', event.happened_at, 'UTC'),
        CASE WHEN length(place.value) > 100 THEN 'other' ELSE COALESCE(place.value, '') END,
        count(*) FILTER (WHERE event.kind = 'arrival')::integer,
        count(*) FILTER (WHERE event.kind = 'landing')::integer,
        count(*) FILTER (WHERE event.kind = 'conversion')::integer
    FROM unnest(events) AS event
    LEFT JOIN shares AS share ON share.id = event.share_id
    CROSS JOIN LATERAL (
        VALUES ('all', NULL),
            ('campaign', share.campaign),
            ('chat_type', CASE WHEN event.kind = 'arrival' THEN event.name END),
            ('template_id', COALESCE(event.template_id, share.template_id)::text)
        UNION ALL
        SELECT 'arg.' || arg.key, arg.value FROM jsonb_each_text(event.args) AS arg
    ) AS place (dimension, value)
    GROUP BY 1, 2, 3
$$;

-- Returns the events of a dimension that are not counted yet, by hour and value.
CREATE FUNCTION pending_share_statistics(wanted text)
RETURNS TABLE (hour timestamptz, value text, arrivals integer, landings integer, conversions integer)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT hour, value, arrivals, landings, conversions
    FROM share_event_statistics(ARRAY(SELECT event FROM share_events AS event))
    WHERE dimension = wanted
$$;

-- Returns what some shares led to: arrivals by chat type, landings, conversions by event. Shares without events are missing.
CREATE FUNCTION share_totals(ids uuid[])
RETURNS TABLE (share_id uuid, arrivals jsonb, landings bigint, conversions jsonb)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT total.share_id,
        COALESCE(jsonb_object_agg(total.name, total.count) FILTER (WHERE total.kind = 'arrival'), '{}'),
        COALESCE(sum(total.count) FILTER (WHERE total.kind = 'landing'), 0)::bigint,
        COALESCE(jsonb_object_agg(total.name, total.count) FILTER (WHERE total.kind = 'conversion'), '{}')
    FROM (
        SELECT stored.share_id, stored.kind, stored.name, sum(stored.count)::bigint AS count
        FROM (
            SELECT counted.share_id, counted.kind, counted.name, counted.count
            FROM share_counts AS counted
            WHERE counted.share_id = ANY (ids)
            UNION ALL
            SELECT pending.share_id, pending.kind, pending.name, 1
            FROM share_events AS pending
            WHERE pending.share_id = ANY (ids)
        ) AS stored
        GROUP BY stored.share_id, stored.kind, stored.name
    ) AS total
    GROUP BY total.share_id
$$;

-- Counts up to `step` events, and deletes them. Returns their number; 0 also while another server counts.
--
-- An hour has at most 1,000 values of a dimension; further ones count as `other`, because phones choose custom arguments.
CREATE FUNCTION merge_share_events(step integer) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    merged share_events[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(18) THEN
        RETURN 0;
    END IF;
    WITH removed AS (
        DELETE FROM share_events
        WHERE id IN (SELECT id FROM share_events ORDER BY id LIMIT step)
        RETURNING share_events
    )
    SELECT array_agg(removed.share_events) INTO merged FROM removed;
    IF merged IS NULL THEN
        RETURN 0;
    END IF;

    INSERT INTO share_counts AS counted (share_id, kind, name, count)
    SELECT event.share_id, event.kind, event.name, count(*)
    FROM unnest(merged) AS event
    WHERE event.share_id IS NOT NULL
    GROUP BY event.share_id, event.kind, event.name
    ON CONFLICT (share_id, kind, name) DO UPDATE
    SET count = counted.count + excluded.count;

    WITH counted AS (
        SELECT *
        FROM share_event_statistics(merged)
    ),
    compared AS (
        SELECT counted.*,
            EXISTS (
                SELECT
                FROM share_statistics AS stored
                WHERE stored.dimension = counted.dimension
                    AND stored.hour = counted.hour
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
            ) AS values
        FROM compared
        WHERE NOT is_stored
        GROUP BY dimension, hour
    ),
    placed AS (
        SELECT dimension,
            hour,
            CASE
                WHEN is_stored OR row_number() OVER (PARTITION BY dimension, hour, is_stored ORDER BY value) <= room.values
                    THEN value
                ELSE 'other'
            END AS value,
            arrivals,
            landings,
            conversions
        FROM compared
        LEFT JOIN room USING (dimension, hour)
    ),
    by_hour AS (
        INSERT INTO share_statistics AS stored (dimension, hour, value, arrivals, landings, conversions)
        SELECT dimension, hour, value, sum(arrivals), sum(landings), sum(conversions)
        FROM placed
        GROUP BY dimension, hour, value
        ON CONFLICT (dimension, hour, value) DO UPDATE
        SET arrivals = stored.arrivals + excluded.arrivals,
            landings = stored.landings + excluded.landings,
            conversions = stored.conversions + excluded.conversions
    )
    INSERT INTO share_statistics_days AS stored (dimension, day, value, arrivals, landings, conversions)
    SELECT dimension, (hour AT TIME ZONE 'Asia/Seoul')::date AS day, value, sum(arrivals), sum(landings), sum(conversions)
    FROM placed
    GROUP BY dimension, day, value
    ON CONFLICT (dimension, day, value) DO UPDATE
    SET arrivals = stored.arrivals + excluded.arrivals,
        landings = stored.landings + excluded.landings,
        conversions = stored.conversions + excluded.conversions;
    RETURN cardinality(merged);
END
$$;
