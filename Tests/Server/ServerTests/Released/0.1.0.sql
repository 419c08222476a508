SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE FUNCTION public.advertising_begins(hours text[], moment timestamp with time zone DEFAULT clock_timestamp()) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT CASE
            WHEN clock < day + begins THEN day + begins
            ELSE day + interval '1 day' + begins
        END AT TIME ZONE hours[1]
    FROM (
        SELECT clock, date_trunc('day', clock) AS day, hours[2]::interval AS begins
        FROM (SELECT moment AT TIME ZONE hours[1] AS clock) AS zone
    ) AS local
    WHERE advertising_ends(hours, moment) IS NULL
$$;
CREATE FUNCTION public.advertising_ends(hours text[], moment timestamp with time zone DEFAULT clock_timestamp()) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT CASE
            WHEN begins < ends AND clock >= day + begins AND clock < day + ends THEN day + ends
            WHEN begins >= ends AND clock >= day + begins THEN day + interval '1 day' + ends
            WHEN begins >= ends AND clock < day + ends THEN day + ends
        END AT TIME ZONE hours[1]
    FROM (
        SELECT clock, date_trunc('day', clock) AS day, hours[2]::interval AS begins, hours[3]::interval AS ends
        FROM (SELECT moment AT TIME ZONE hours[1] AS clock) AS zone
    ) AS local
$$;
CREATE FUNCTION public.commits_are_checked(of_queue text) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    RETURN run_wait() = interval '0'
        AND NOT EXISTS (
            SELECT 1
            FROM work_leases
            WHERE queue = of_queue
                AND checked_run <> (SELECT database_run())
        );
END
$$;
CREATE FUNCTION public.database_run() RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    run text := concat_ws(
        ' ',
        extract(epoch FROM pg_postmaster_start_time()),
        extract(epoch FROM pg_stat_get_bgwriter_stat_reset_time())
    );
BEGIN
    -- `pg_control_checkpoint()` has the old timeline until the first checkpoint after a promotion.
    RETURN concat(left(pg_walfile_name(pg_current_wal_lsn()), 8), ' ', run);
EXCEPTION
    WHEN feature_not_supported OR undefined_function OR insufficient_privilege OR object_not_in_prerequisite_state THEN
        RETURN run;
END
$$;
CREATE FUNCTION public.delete_departed_relations(owner bigint, left_at timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
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
CREATE FUNCTION public.delete_unused_quota() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM message_quotas
    WHERE (day, quota, sender, receiver) = (NEW.day, NEW.quota, NEW.sender, NEW.receiver);
    RETURN NULL;
END
$$;
CREATE FUNCTION public.device_change_is_stored(owner bigint, device text, type text, changed_at timestamp with time zone) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT EXISTS (
            SELECT 1
            FROM devices
            WHERE (user_id, device_id, push_type) = (owner, device, type)
                AND updated_at >= changed_at
        )
        OR EXISTS (
            SELECT 1
            FROM former_devices
            WHERE user_id = owner
                AND (device_id, push_type) IN ((device, type), ('', ''))
                AND withdrawn_at >= changed_at
        )
        OR EXISTS (SELECT 1 FROM erased_users WHERE user_id = owner AND erased_at >= changed_at)
$$;
CREATE FUNCTION public.find_pushes(state_filter text, name_prefix text, creator text, since timestamp with time zone, until timestamp with time zone, is_unfinished boolean, before uuid, maximum bigint, hours text[]) RETURNS SETOF uuid
    LANGUAGE plpgsql STABLE ROWS 100
    SET search_path TO 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
DECLARE
    -- The states that are stored, for the indexes.
    states              text[] := CASE state_filter
            WHEN 'proposed' THEN '{proposed,halted}'
            WHEN 'scheduled' THEN '{scheduled,preparing}'
            ELSE string_to_array(state_filter, ',')
        END;
BEGIN
    RETURN QUERY
    SELECT id
    FROM pushes
    WHERE (states IS NULL OR state = ANY (states))
        -- Other states are stored as they are shown.
        AND (
            state_filter IS NULL
            OR state_filter NOT IN ('proposed', 'scheduled', 'preparing')
            OR push_shown_state(state, kind, to_testers, (SELECT advertising_ends(hours) IS NOT NULL)) = state_filter
            OR state_filter = 'proposed'
                AND push_awaits_approval(state, created_at, expires_at, prepared_at, users - users_skipped, allowed_users)
        )
        -- The names from the prefix itself to the prefix with the last of all characters.
        AND (name_prefix IS NULL OR name COLLATE "C" >= name_prefix AND name COLLATE "C" <= name_prefix || chr(1114111))
        AND (creator IS NULL OR created_by = creator)
        AND (since IS NULL OR created_at >= since)
        AND (until IS NULL OR created_at < until)
        AND (NOT is_unfinished OR finished_at IS NULL)
        -- An id is made just before its push is created.
        AND id >= COALESCE(uuid_v7_floor(since - interval '1 minute'), '00000000-0000-0000-0000-000000000000')
        AND id <= COALESCE(uuid_v7_floor(until + interval '1 minute'), 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        AND id < COALESCE(before, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    ORDER BY id DESC
    LIMIT maximum;
END
$$;
CREATE FUNCTION public.is_departure(event_type text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT event_type IN (
        'unlink',
        'https://schemas.openid.net/secevent/oauth/event-type/user-unlinked',
        'https://schemas.openid.net/secevent/risc/event-type/account-purged',
        'https://schemas.openid.net/secevent/risc/event-type/account-disabled'
    )
$$;
CREATE FUNCTION public.limit_added_devices() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    -- Users are locked in ascending order, as by all statements.
    PERFORM withdraw_oldest_devices(user_id, devices)
    FROM (SELECT user_id, count(*) AS devices FROM added WHERE NOT withdrawn GROUP BY user_id ORDER BY user_id) AS owner
    WHERE EXISTS (SELECT FROM devices WHERE devices.user_id = owner.user_id AND NOT withdrawn OFFSET 3);
    RETURN NULL;
END
$$;
CREATE FUNCTION public.limit_returned_device() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM devices WHERE user_id = NEW.user_id AND NOT withdrawn OFFSET 3) THEN
        PERFORM withdraw_oldest_devices(NEW.user_id, 1);
    END IF;
    RETURN NULL;
END
$$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.audit_records (
    id uuid NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    key_id uuid,
    key_name text NOT NULL,
    address text,
    operation text NOT NULL,
    object text,
    user_id bigint,
    reason text,
    request_id text
);
CREATE FUNCTION public.list_audit_records(key uuid, operation_filter text, object_filter text, owner bigint, since timestamp with time zone, until timestamp with time zone, before uuid, maximum bigint) RETURNS SETOF public.audit_records
    LANGUAGE plpgsql STABLE ROWS 100
    SET search_path TO 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
BEGIN
    RETURN QUERY
    SELECT *
    FROM audit_records
    WHERE (key IS NULL OR key_id = key)
        AND (operation_filter IS NULL OR operation = operation_filter)
        AND (object_filter IS NULL OR object = object_filter)
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
CREATE FUNCTION public.merge_share_events(step integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
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
CREATE FUNCTION public.message_tested_before(given_message text, given_version text, begun timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT max(started_at)
    FROM pushes
    WHERE to_testers
        AND message = given_message
        AND message_version = given_version
        AND started_at <= COALESCE(begun, 'infinity')
        AND push_users_sent(id) > 0
$$;
CREATE FUNCTION public.operator_keys_are_related(one uuid, other uuid) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    WITH RECURSIVE creators AS (
        SELECT start, start AS id
        FROM (VALUES (one), (other)) AS given (start)
        UNION
        SELECT creators.start, operator_keys.created_by_key
        FROM creators
        JOIN operator_keys USING (id)
    )
    SELECT EXISTS (
        SELECT 1
        FROM creators
        WHERE (start, id) IN ((one, other), (other, one))
    )
$$;
CREATE FUNCTION public.pending_share_statistics(wanted text) RETURNS TABLE(hour timestamp with time zone, value text, arrivals integer, landings integer, conversions integer)
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT hour, value, arrivals, landings, conversions
    FROM share_event_statistics(ARRAY(SELECT event FROM share_events AS event))
    WHERE dimension = wanted
$$;
CREATE FUNCTION public.push_awaits_approval(state text, created_at timestamp with time zone, expires_at timestamp with time zone, prepared_at timestamp with time zone, users bigint, allowed_users bigint) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT CASE state
            WHEN 'proposed' THEN now() < LEAST(created_at + interval '24 hours', expires_at)
            WHEN 'halted' THEN prepared_at IS NOT NULL AND COALESCE(users > allowed_users, false)
            ELSE false
        END
$$;
CREATE FUNCTION public.push_is_settled(push uuid) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT CASE
            WHEN state = 'done' THEN true
            WHEN ended_at IS NULL THEN prepared_at IS NOT NULL
            WHEN started_at IS NULL THEN true
            ELSE ended_at < now() - interval '10 s'
                AND NOT EXISTS (SELECT 1 FROM push_claims WHERE push_id = push AND lease IS NOT NULL)
                AND NOT EXISTS (SELECT 1 FROM push_batches WHERE push_id = push AND state = 'sending')
        END
    FROM pushes
    CROSS JOIN LATERAL (
        SELECT LEAST(finished_at, CASE WHEN expires_at <= now() THEN expires_at END) AS ended_at
    ) AS times
    WHERE id = push
$$;
CREATE FUNCTION public.push_open_probe(push uuid, probe integer, probe_sent bigint) RETURNS integer
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT push_open_probe.probe
    WHERE push_users_sent(push) <= push_open_probe.probe_sent
        AND EXISTS (
            SELECT 1
            FROM push_batches
            WHERE push_id = push
                AND origin = push_open_probe.probe
                AND state IN ('waiting', 'sending')
        )
$$;
CREATE FUNCTION public.push_part_users(push uuid, batch integer) RETURNS bigint[]
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT ARRAY(
        SELECT ('x' || lpad(encode(substring(own FROM id_bytes * place + 1 FOR id_bytes), 'hex'), 16, '0'))::bit(64)::bigint
        FROM generate_series(0, octet_length(own) / id_bytes - 1) AS place
        ORDER BY place
    )
    FROM (
        SELECT id_bytes, substring(ids FROM id_bytes * batch_users * (batch - number) + 1 FOR id_bytes * batch_users) AS own
        FROM push_parts
        WHERE push_id = push
            AND number <= batch
        ORDER BY number DESC
        LIMIT 1
    ) AS part
$$;
CREATE FUNCTION public.push_shown_state(state text, kind text, to_testers boolean, advertising_is_sent boolean) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE
            WHEN state = 'preparing' AND kind = 'advertising' AND NOT to_testers AND NOT advertising_is_sent THEN 'scheduled'
            ELSE state
        END
$$;
CREATE FUNCTION public.push_user(push uuid, wanted bigint) RETURNS TABLE(batch integer, state text, attempts integer, may_repeat boolean, kakao_status integer, kakao_code integer, kakao_message text, finished_at timestamp with time zone)
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    WITH place AS MATERIALIZED (
        SELECT push_user_batch(push, wanted) AS number
    )
    SELECT found.number, found.state, found.attempts, found.may_repeat, found.kakao_status, found.kakao_code,
        found.kakao_message, found.finished_at
    FROM (
        -- The batch with a row of its own, or the only batch of a push, which has no parts.
        SELECT 1 AS priority, own.number, own.state, own.attempts, own.may_repeat, own.kakao_status, own.kakao_code,
            own.kakao_message, own.finished_at
        FROM place
        JOIN push_batches AS own ON own.push_id = push AND own.number = COALESCE(place.number, 1)
        WHERE own.origin IS NULL
            AND (wanted = ANY (own.user_ids) OR own.user_ids IS NULL AND place.number IS NOT NULL)
        UNION ALL
        -- The part of a batch that Kakao rejected.
        SELECT 1, own.number, own.state, own.attempts, own.may_repeat, own.kakao_status, own.kakao_code,
            own.kakao_message, own.finished_at
        FROM place
        JOIN push_batches AS own ON own.push_id = push AND own.origin = COALESCE(place.number, 1)
        WHERE wanted = ANY (own.user_ids)
        UNION ALL
        -- A batch at its first attempt, or one that was sent at it.
        SELECT 2, place.number, CASE get_bit(claim.settled, place.number - claim.number) WHEN 1 THEN 'sent' ELSE 'sending' END,
            1, false, CASE get_bit(claim.settled, place.number - claim.number) WHEN 1 THEN 200 END, NULL, NULL,
            CASE get_bit(claim.settled, place.number - claim.number) WHEN 1 THEN claim.finished_at END
        FROM place
        CROSS JOIN LATERAL (
            SELECT number, settled, finished_at
            FROM push_claims
            WHERE push_id = push
                AND number <= place.number
            ORDER BY number DESC
            LIMIT 1
        ) AS claim
        WHERE place.number < claim.number + length(claim.settled)
        UNION ALL
        -- A batch that is not claimed yet.
        SELECT 3, place.number, 'waiting', 0, false, NULL, NULL, NULL, NULL
        FROM place
        WHERE place.number IS NOT NULL
    ) AS found
    ORDER BY found.priority
    LIMIT 1
$$;
CREATE FUNCTION public.push_user_batch(push uuid, wanted bigint) RETURNS integer
    LANGUAGE plpgsql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    low integer := 0;
    high integer := (SELECT number + batches - 1 FROM push_parts WHERE push_id = push ORDER BY number DESC LIMIT 1);
    middle integer;
    batch integer;
    is_at_or_before boolean;
    found_batch integer;
BEGIN
    WHILE low < high LOOP
        middle := (low + high + 1) / 2;
        SELECT part.batch,
            -- The first user of the batch, in eight bytes, which compare like the numbers.
            substring('\x00000000000000'::bytea FOR 8 - id_bytes)
                || substring(ids FROM id_bytes * batch_users * (part.batch - number) + 1 FOR id_bytes)
                <= int8send(wanted)
        INTO batch, is_at_or_before
        FROM (
            SELECT number, ids, id_bytes, batch_users, LEAST(middle, number + batches - 1) AS batch
            FROM push_parts
            WHERE push_id = push
                AND number <= middle
            ORDER BY number DESC
            LIMIT 1
        ) AS part;
        IF is_at_or_before THEN
            low := middle;
            found_batch := batch;
        ELSE
            high := batch - 1;
        END IF;
    END LOOP;
    RETURN CASE WHEN wanted = ANY (push_part_users(push, found_batch)) THEN found_batch END;
END
$$;
CREATE FUNCTION public.push_users(push uuid, wanted bigint[]) RETURNS TABLE(user_id bigint, state text, may_repeat boolean)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    -- The parts in their order, each with its first user.
    numbers integer[];
    firsts bigint[];
    -- Whether any batch has a row of its own, which few pushes have.
    has_rows boolean := EXISTS (SELECT FROM push_batches AS own WHERE own.push_id = push);
    -- The part in which the last user was searched for.
    part integer := 0;
    found_part integer;
    part_users integer;
    width integer;
    -- Its users.
    ids bytea;
    key bytea;
    low integer;
    high integer;
    middle integer;
    batch integer;
BEGIN
    SELECT array_agg(given.number ORDER BY given.number),
        array_agg(
            ('x' || lpad(encode(substring(given.ids FOR given.id_bytes), 'hex'), 16, '0'))::bit(64)::bigint
            ORDER BY given.number
        )
    INTO numbers, firsts
    FROM push_parts AS given
    WHERE given.push_id = push;
    IF numbers IS NULL THEN
        -- The only batch of a push, and what it was split into.
        RETURN QUERY
        SELECT DISTINCT item.id, own.state, own.may_repeat
        FROM push_batches AS own
        CROSS JOIN unnest(own.user_ids) AS item (id)
        WHERE own.push_id = push
            AND item.id = ANY (wanted);
        RETURN;
    END IF;
    FOR user_id IN SELECT DISTINCT item FROM unnest(wanted) AS item ORDER BY item LOOP
        found_part := width_bucket(user_id, firsts);
        -- Below the first user of the push.
        CONTINUE WHEN found_part = 0;
        IF found_part <> part THEN
            part := found_part;
            -- Many users of a part are searched for in memory. For few, each step reads a piece of the stored value.
            SELECT given.batch_users, given.id_bytes,
                CASE WHEN cardinality(wanted) > 2 * cardinality(numbers) THEN given.ids || ''::bytea ELSE given.ids END
            INTO part_users, width, ids
            FROM push_parts AS given
            WHERE given.push_id = push
                AND given.number = numbers[part];
        END IF;
        -- An id of more bytes than any of the part.
        CONTINUE WHEN width < 8 AND user_id >> 8 * width > 0;
        key := substring(int8send(user_id) FROM 9 - width);
        low := 0;
        high := octet_length(ids) / width - 1;
        WHILE low < high LOOP
            middle := (low + high + 1) / 2;
            IF substring(ids FROM middle * width + 1 FOR width) <= key THEN
                low := middle;
            ELSE
                high := middle - 1;
            END IF;
        END LOOP;
        CONTINUE WHEN substring(ids FROM low * width + 1 FOR width) <> key;
        batch := numbers[part] + low / part_users;
        state := NULL;
        may_repeat := false;
        IF has_rows THEN
            SELECT own.state, own.may_repeat
            INTO state, may_repeat
            FROM push_batches AS own
            WHERE own.push_id = push
                AND own.number = batch
                AND own.origin IS NULL;
            IF NOT FOUND THEN
                SELECT own.state, own.may_repeat
                INTO state, may_repeat
                FROM push_batches AS own
                WHERE own.push_id = push
                    AND own.origin = batch
                    AND user_id = ANY (own.user_ids);
            END IF;
        END IF;
        IF state IS NULL THEN
            may_repeat := false;
            state := (
                SELECT CASE get_bit(claim.settled, batch - claim.number) WHEN 1 THEN 'sent' ELSE 'sending' END
                FROM (
                    SELECT given.number, given.settled
                    FROM push_claims AS given
                    WHERE given.push_id = push
                        AND given.number <= batch
                    ORDER BY given.number DESC
                    LIMIT 1
                ) AS claim
                WHERE batch < claim.number + length(claim.settled)
            );
            state := COALESCE(state, 'waiting');
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
CREATE FUNCTION public.push_users_sent(push uuid) RETURNS bigint
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT COALESCE(sum(users), 0)::bigint
    FROM push_counts
    WHERE push_id = push
        AND state = 'sent'
$$;
CREATE FUNCTION public.push_waits_for(excluded_pushes uuid[], prepared_at timestamp with time zone, finished_at timestamp with time zone) RETURNS uuid[]
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT ARRAY(
        SELECT id
        FROM unnest(excluded_pushes) AS excluded (id)
        WHERE prepared_at IS NULL
            AND finished_at IS NULL
            AND NOT push_is_settled(id)
    )
$$;
CREATE FUNCTION public.pushes_are_excludable(ids uuid[], begins timestamp with time zone) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT NOT EXISTS (
        SELECT 1
        FROM unnest(ids) AS excluded (id)
        WHERE NOT EXISTS (
            SELECT 1
            FROM pushes
            WHERE pushes.id = excluded.id
                AND removed_at IS NULL
                AND (state NOT IN ('proposed', 'scheduled') OR COALESCE(send_at <= begins, true))
        )
    )
$$;
CREATE FUNCTION public.record_account() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    event_subject text := 'accounts/' || NEW.user_id;
BEGIN
    INSERT INTO webhook_events (id, endpoint, type, user_id, subject, revision, data)
    SELECT uuid_v7(), endpoint.name, 'account.login_required', NEW.user_id, event_subject, webhook_revision(event_subject),
        to_jsonb(account)
    FROM webhook_endpoints AS endpoint
    CROSS JOIN account_summaries AS account
    WHERE 'account.login_required' = ANY (endpoint.types)
        AND account.user_id = NEW.user_id;
    RETURN NULL;
END
$$;
CREATE FUNCTION public.record_former_device() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO former_devices AS former (user_id, device_id, push_type, withdrawn_at)
    VALUES (OLD.user_id, OLD.device_id, OLD.push_type, OLD.updated_at)
    ON CONFLICT (user_id, device_id, push_type) DO UPDATE
    SET withdrawn_at = GREATEST(former.withdrawn_at, excluded.withdrawn_at);
    RETURN NULL;
END
$$;
CREATE FUNCTION public.record_message() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    event_type text := 'message.' || NEW.state;
    event_subject text := 'messages/' || NEW.id;
BEGIN
    INSERT INTO webhook_events (id, endpoint, type, user_id, subject, revision, data)
    SELECT uuid_v7(), endpoint.name, event_type, NEW.sender, event_subject, webhook_revision(event_subject), to_jsonb(message)
    FROM webhook_endpoints AS endpoint
    CROSS JOIN message_summaries AS message
    WHERE event_type = ANY (endpoint.types)
        AND message.id = NEW.id;
    RETURN NULL;
END
$$;
CREATE FUNCTION public.record_push() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO webhook_events (id, endpoint, type, subject, revision, data)
    SELECT uuid_v7(), endpoint.name, event.type, event.subject, webhook_revision(event.subject), to_jsonb(push)
    FROM webhook_endpoints AS endpoint
    CROSS JOIN push_summaries AS push
    CROSS JOIN LATERAL (
        SELECT 'push.' || NEW.state AS type, 'pushes/' || NEW.id AS subject
        WHERE NEW.state <> 'canceled'
        UNION ALL
        SELECT 'push.unreached', 'pushes/' || NEW.id || '/users'
        WHERE NEW.state IN ('done', 'canceled', 'expired')
            AND (
                push.users_skipped > 0
                OR push.users_excluded > 0
                OR push.users_without_consent > 0
                OR push.users_failed > 0
                OR push.users_unsent > 0
                OR push.users_uncertain > 0
                OR push.users_unanswered > 0
                OR NOT push.is_prepared
            )
    ) AS event
    WHERE event.type = ANY (endpoint.types)
        AND push.id = NEW.id;
    RETURN NULL;
END
$$;
CREATE FUNCTION public.record_sender() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    sender_state text := CASE
            WHEN NEW.stopped_at IS NOT NULL THEN 'stopped'
            WHEN NEW.halted_at IS NOT NULL THEN 'halted'
            ELSE 'resumed'
        END;
BEGIN
    INSERT INTO webhook_events (id, endpoint, type, subject, revision, data)
    SELECT uuid_v7(), name, 'sender.' || sender_state, 'sender', webhook_revision('sender'),
        jsonb_build_object(
            'state', sender_state, 'reason', COALESCE(NEW.reason, NEW.halt_reason), 'by', NEW.stopped_by, 'at', now()
        )
    FROM webhook_endpoints
    WHERE 'sender.' || sender_state = ANY (types);
    RETURN NULL;
END
$$;
CREATE FUNCTION public.record_withdrawal() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    event_subject text := concat_ws('/', 'devices', NEW.user_id, NEW.push_type, NEW.device_id);
BEGIN
    INSERT INTO webhook_events (id, endpoint, type, user_id, subject, revision, data)
    SELECT uuid_v7(), name, 'device.withdrawn', NEW.user_id, event_subject, webhook_revision(event_subject),
        jsonb_build_object(
            'user_id', NEW.user_id, 'device_id', NEW.device_id, 'push_type', NEW.push_type, 'cause', NEW.withdrawal_cause,
            'withdrawn_at', now()
        )
    FROM webhook_endpoints
    WHERE 'device.withdrawn' = ANY (types);
    RETURN NULL;
END
$$;
CREATE FUNCTION public.run_wait() RETURNS interval
    LANGUAGE plpgsql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    RETURN (
        SELECT CASE
                WHEN run <> database_run() THEN interval '6 seconds'
                -- Not if the clock was set back.
                WHEN run_seen_at BETWEEN now() - interval '6 seconds' AND now() THEN run_seen_at + interval '6 seconds' - now()
                ELSE interval '0'
            END
        FROM sender
    );
END
$$;
CREATE TABLE public.share_events (
    id bigint NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    share_id uuid,
    template_id bigint,
    args jsonb,
    happened_at timestamp with time zone DEFAULT now() NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000');
CREATE FUNCTION public.share_event_statistics(events public.share_events[]) RETURNS TABLE(dimension text, hour timestamp with time zone, value text, arrivals integer, landings integer, conversions integer)
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
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
CREATE FUNCTION public.share_totals(ids uuid[]) RETURNS TABLE(share_id uuid, arrivals jsonb, landings bigint, conversions jsonb)
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
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
CREATE FUNCTION public.tags_with_channel(given text[], app_user bigint, channel_tag text) RETURNS text[]
    LANGUAGE sql
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT array_remove(given, channel_tag) || CASE WHEN EXISTS (
            SELECT 1
            FROM channel_relations
            WHERE id_type = 'app_user_id'
                AND id = app_user::text
                AND relation = 'ADDED'
        ) THEN ARRAY[channel_tag] ELSE '{}' END
$$;
CREATE FUNCTION public.user_has_left(owner bigint, since timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(17, hashint8(owner));
    RETURN EXISTS (SELECT FROM events WHERE user_id = owner AND happened_at >= since AND is_departure(type));
END
$$;
CREATE FUNCTION public.uuid_v7() RETURNS uuid
    LANGUAGE sql
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
CREATE FUNCTION public.uuid_v7_floor(at timestamp with time zone) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT (lpad(to_hex(GREATEST(extract(epoch FROM at) * 1000, 0)::bigint), 12, '0') || '70008000000000000000')::uuid
$$;
CREATE FUNCTION public.webhook_revision(event_subject text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    RETURN GREATEST(
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
        (SELECT max(revision) + 1 FROM webhook_events WHERE subject = event_subject AND data IS NOT NULL)
    );
END
$$;
CREATE FUNCTION public.withdraw_departed_devices(owner bigint, left_at timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    devices_withdrawn bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(17, hashint8(owner));
    -- In the order of their keys, as by every statement that locks devices.
    WITH held AS (
        SELECT device_id, push_type
        FROM devices
        WHERE user_id = owner
            AND NOT withdrawn
            AND (updated_at <= left_at OR authorized_at <= left_at)
        ORDER BY device_id, push_type
        FOR UPDATE
    )
    UPDATE devices AS device
    SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
        = (SELECT * FROM withdrawal(device, 'user_left', GREATEST(device.updated_at, left_at)))
    FROM held
    WHERE device.user_id = owner
        AND (device.device_id, device.push_type) = (held.device_id, held.push_type);
    GET DIAGNOSTICS devices_withdrawn = ROW_COUNT;
    INSERT INTO former_devices AS former (user_id, device_id, push_type, withdrawn_at)
    VALUES (owner, '', '', left_at)
    ON CONFLICT (user_id, device_id, push_type) DO UPDATE
    SET withdrawn_at = GREATEST(former.withdrawn_at, excluded.withdrawn_at);
    RETURN devices_withdrawn;
END
$$;
CREATE FUNCTION public.withdraw_oldest_devices(owner bigint, added bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(16, hashint8(owner));
    -- Withdraws at most a hundred devices more than were added.
    WITH oldest AS (
        SELECT device_id, push_type
        FROM devices
        WHERE user_id = owner
            AND NOT withdrawn
        ORDER BY updated_at, device_id, push_type
        LIMIT (
            SELECT GREATEST(count(*) - 100, 0)
            FROM (SELECT FROM devices WHERE user_id = owner AND NOT withdrawn LIMIT 200 + added) AS device
        )
        -- A locked device is being registered, confirmed or withdrawn. Skipping it rules out a deadlock.
        FOR UPDATE SKIP LOCKED
    )
    UPDATE devices AS device
    SET (withdrawn, revision, updated_at, attempts, next_attempt_at, withdrawal_cause)
        = (SELECT * FROM withdrawal(device, 'too_many_devices', device.updated_at))
    FROM oldest
    WHERE device.user_id = owner
        AND (device.device_id, device.push_type) = (oldest.device_id, oldest.push_type);
END
$$;
CREATE TABLE public.devices (
    user_id bigint NOT NULL,
    device_id text NOT NULL,
    push_type text NOT NULL,
    push_token text NOT NULL,
    locale text,
    timezone text,
    app_version text,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    withdrawn boolean DEFAULT false NOT NULL,
    revision bigint DEFAULT 1 NOT NULL,
    kakao_revision bigint DEFAULT 0 NOT NULL,
    lease uuid,
    lease_ends_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    next_attempt_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    renew_at timestamp with time zone,
    renewal_revision bigint,
    failures integer DEFAULT 0 NOT NULL,
    last_failure_at timestamp with time zone,
    failure_dates timestamp with time zone[],
    authorized_at timestamp with time zone,
    withdrawal_cause text,
    changed_by text,
    CONSTRAINT devices_push_type_check CHECK ((push_type = ANY (ARRAY['apns'::text, 'fcm'::text]))),
    CONSTRAINT devices_user_id_check CHECK ((user_id > 0))
)
WITH (fillfactor='85');
CREATE FUNCTION public.withdrawal(device public.devices, cause text, withdrawn_at timestamp with time zone DEFAULT now(), applies boolean DEFAULT true) RETURNS TABLE(withdrawn boolean, revision bigint, updated_at timestamp with time zone, attempts integer, next_attempt_at timestamp with time zone, withdrawal_cause text)
    LANGUAGE sql STABLE
    AS $$
    SELECT device.withdrawn OR applies,
        device.revision + CASE WHEN applies AND NOT device.withdrawn THEN 1 ELSE 0 END,
        CASE WHEN applies THEN withdrawn_at ELSE device.updated_at END,
        CASE WHEN applies THEN 0 ELSE device.attempts END,
        CASE WHEN applies THEN now() ELSE device.next_attempt_at END,
        CASE WHEN applies AND NOT device.withdrawn THEN cause ELSE device.withdrawal_cause END
$$;
CREATE TABLE public.accounts (
    user_id bigint NOT NULL,
    state text NOT NULL,
    reason text,
    app_key text NOT NULL,
    refreshed_by text NOT NULL,
    scopes text[] NOT NULL,
    tokens bytea,
    key_id text,
    refresh_token_sha256 bytea,
    access_token_ends_at timestamp with time zone,
    refresh_at timestamp with time zone,
    refresh_token_ends_at timestamp with time zone,
    renew_at timestamp with time zone,
    lease uuid,
    lease_ends_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    retry_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    linked_at timestamp with time zone DEFAULT now() NOT NULL,
    refreshed_at timestamp with time zone,
    is_verified boolean DEFAULT true NOT NULL,
    CONSTRAINT accounts_app_key_check CHECK ((app_key = ANY (ARRAY['rest'::text, 'native'::text, 'javascript'::text]))),
    CONSTRAINT accounts_lease_check CHECK (((lease IS NULL) = (lease_ends_at IS NULL))),
    CONSTRAINT accounts_linked_check CHECK (((state <> 'linked'::text) OR (tokens IS NOT NULL))),
    CONSTRAINT accounts_refresh_token_sha256_check CHECK ((length(refresh_token_sha256) = 32)),
    CONSTRAINT accounts_refreshed_by_check CHECK ((refreshed_by = ANY (ARRAY['server'::text, 'app'::text]))),
    CONSTRAINT accounts_state_check CHECK ((state = ANY (ARRAY['linked'::text, 'login_required'::text, 'unlinked'::text]))),
    CONSTRAINT accounts_tokens_check CHECK ((num_nulls(tokens, key_id, access_token_ends_at, refresh_at) = ANY (ARRAY[0, 4])))
);
ALTER TABLE ONLY public.accounts ALTER COLUMN tokens SET STORAGE EXTERNAL;
CREATE VIEW public.account_summaries AS
 SELECT accounts.user_id,
    accounts.state,
    accounts.reason,
    accounts.app_key,
    accounts.refreshed_by,
    accounts.scopes,
    accounts.access_token_ends_at,
    accounts.refresh_token_ends_at,
    accounts.created_at,
    accounts.linked_at,
    accounts.refreshed_at
   FROM public.accounts;
CREATE TABLE public.audience_parts (
    parts_id uuid NOT NULL,
    number integer NOT NULL,
    user_ids bigint[] NOT NULL,
    CONSTRAINT audience_parts_number_check CHECK ((number > 0)),
    CONSTRAINT audience_parts_user_ids_check CHECK (((cardinality(user_ids) >= 1) AND (cardinality(user_ids) <= 1000)))
);
ALTER TABLE ONLY public.audience_parts ALTER COLUMN user_ids SET STATISTICS 0;
CREATE TABLE public.audiences (
    name text NOT NULL COLLATE pg_catalog."C",
    parts_id uuid NOT NULL,
    users bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT audiences_users_check CHECK ((users > 0))
);
CREATE TABLE public.channel_relations (
    id_type text NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    channel_public_id text NOT NULL COLLATE pg_catalog."C",
    channel_uuid text,
    relation text NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    stored_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT channel_relations_id_type_check CHECK ((id_type = ANY (ARRAY['app_user_id'::text, 'open_id'::text]))),
    CONSTRAINT channel_relations_relation_check CHECK ((relation = ANY (ARRAY['ADDED'::text, 'BLOCKED'::text])))
);
CREATE TABLE public.customer_upload_parts (
    upload_id uuid NOT NULL,
    number integer NOT NULL,
    due_at timestamp with time zone DEFAULT now(),
    attempts integer DEFAULT 0 NOT NULL,
    lease uuid,
    claims integer DEFAULT 0 NOT NULL
);
CREATE TABLE public.customer_upload_users (
    upload_id uuid NOT NULL,
    number integer NOT NULL,
    users jsonb NOT NULL,
    user_count integer NOT NULL,
    user_ids bigint[]
);
CREATE TABLE public.customer_uploads (
    id uuid NOT NULL,
    channel_public_id text NOT NULL,
    file_id bigint NOT NULL,
    user_type text NOT NULL,
    action text NOT NULL,
    state text NOT NULL,
    users bigint NOT NULL,
    users_sent bigint DEFAULT 0 NOT NULL,
    users_accepted bigint DEFAULT 0 NOT NULL,
    reason text,
    created_by text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT customer_uploads_action_check CHECK ((action = ANY (ARRAY['update'::text, 'delete'::text]))),
    CONSTRAINT customer_uploads_state_check CHECK ((state = ANY (ARRAY['sending'::text, 'done'::text, 'failed'::text, 'canceled'::text]))),
    CONSTRAINT customer_uploads_user_type_check CHECK ((user_type = ANY (ARRAY['app'::text, 'phone'::text]))),
    CONSTRAINT customer_uploads_users_check CHECK ((users > 0))
);
CREATE TABLE public.erased_users (
    user_id bigint NOT NULL,
    erased_at timestamp with time zone NOT NULL
);
CREATE TABLE public.events (
    key text NOT NULL,
    id uuid NOT NULL,
    type text NOT NULL,
    user_id bigint,
    referrer_type text,
    payload jsonb NOT NULL,
    raw text,
    received_at timestamp with time zone NOT NULL,
    happened_at timestamp with time zone NOT NULL,
    stored_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE public.former_devices (
    user_id bigint NOT NULL,
    device_id text NOT NULL,
    push_type text NOT NULL,
    withdrawn_at timestamp with time zone NOT NULL
);
CREATE TABLE public.idempotency_keys (
    operator_key bytea NOT NULL,
    key text NOT NULL,
    sha256 bytea NOT NULL,
    push_id uuid NOT NULL,
    answer bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT idempotency_keys_operator_key_check CHECK ((octet_length(operator_key) = ANY (ARRAY[0, 32]))),
    CONSTRAINT idempotency_keys_sha256_check CHECK ((octet_length(sha256) = 32))
);
CREATE TABLE public.image_storage (
    id boolean DEFAULT true NOT NULL,
    bytes bigint NOT NULL,
    CONSTRAINT image_storage_bytes_check CHECK ((bytes >= 0)),
    CONSTRAINT image_storage_id_check CHECK (id)
);
CREATE TABLE public.images (
    id uuid NOT NULL,
    sha256 bytea NOT NULL,
    content_type text NOT NULL,
    width integer NOT NULL,
    height integer NOT NULL,
    size bigint NOT NULL,
    bytes bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    url text,
    expires_at timestamp with time zone,
    lease uuid,
    lease_ends_at timestamp with time zone,
    CONSTRAINT images_check CHECK (((url IS NULL) = (expires_at IS NULL))),
    CONSTRAINT images_check1 CHECK (((lease IS NULL) = (lease_ends_at IS NULL))),
    CONSTRAINT images_sha256_check CHECK ((length(sha256) = 32)),
    CONSTRAINT images_size_check CHECK ((size > 0))
);
ALTER TABLE ONLY public.images ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE TABLE public.kakao_calls (
    month date NOT NULL,
    calls bigint NOT NULL
);
CREATE TABLE public.link_callbacks (
    key text NOT NULL,
    id uuid NOT NULL,
    chat_type text,
    hash_chat_id text,
    template_id bigint,
    args jsonb NOT NULL,
    received_at timestamp with time zone NOT NULL,
    stored_at timestamp with time zone DEFAULT now() NOT NULL,
    share_id uuid,
    signature text,
    raw text
);
CREATE TABLE public.login_results (
    sha256 bytea NOT NULL,
    request_sha256 bytea,
    claim uuid,
    result bytea,
    ends_at timestamp with time zone NOT NULL,
    CONSTRAINT login_results_request_sha256_check CHECK ((length(request_sha256) = 32)),
    CONSTRAINT login_results_sha256_check CHECK ((length(sha256) = 32))
);
CREATE TABLE public.message_quotas (
    day date NOT NULL,
    quota text NOT NULL,
    sender bigint DEFAULT 0 NOT NULL,
    receiver text DEFAULT ''::text NOT NULL,
    used integer NOT NULL,
    CONSTRAINT message_quotas_quota_check CHECK ((quota = ANY (ARRAY['app'::text, 'sender'::text, 'receiver'::text, 'pair'::text])))
);
CREATE TABLE public.message_receivers (
    message_id uuid NOT NULL,
    "position" integer NOT NULL,
    user_id bigint,
    uuid text,
    state text DEFAULT 'pending'::text NOT NULL,
    due_at timestamp with time zone,
    attempts integer DEFAULT 0 NOT NULL,
    claims integer DEFAULT 0 NOT NULL,
    lease uuid,
    is_alone boolean DEFAULT false NOT NULL,
    may_repeat boolean DEFAULT false NOT NULL,
    quota_day date,
    code integer,
    reason text,
    kakao_message text,
    scopes text[],
    finished_at timestamp with time zone,
    CONSTRAINT message_receivers_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'sending'::text, 'waiting'::text, 'sent'::text, 'failed'::text, 'uncertain'::text, 'skipped'::text])))
);
CREATE TABLE public.messages (
    id uuid NOT NULL,
    sender bigint NOT NULL,
    addressing text NOT NULL,
    state text NOT NULL,
    template_object text,
    template_id bigint,
    template_args text,
    request_url text,
    delivery text NOT NULL,
    when_over_quota text NOT NULL,
    send_at timestamp with time zone,
    expires_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    resolve_at timestamp with time zone,
    operator_key bytea,
    idempotency_key text,
    request_sha256 bytea,
    response bytea,
    created_by text,
    CONSTRAINT messages_addressing_check CHECK ((addressing = ANY (ARRAY['me'::text, 'friends'::text, 'users'::text]))),
    CONSTRAINT messages_content_check CHECK ((num_nonnulls(template_object, COALESCE(request_url, (template_id)::text)) = 1)),
    CONSTRAINT messages_delivery_check CHECK ((delivery = ANY (ARRAY['at_least_once'::text, 'at_most_once'::text]))),
    CONSTRAINT messages_state_check CHECK ((state = ANY (ARRAY['active'::text, 'done'::text, 'canceled'::text, 'expired'::text]))),
    CONSTRAINT messages_when_over_quota_check CHECK ((when_over_quota = ANY (ARRAY['wait'::text, 'fail'::text])))
);
CREATE VIEW public.message_summaries AS
 SELECT message.id,
    message.sender,
    message.state,
    message.delivery,
    message.when_over_quota,
    message.send_at,
    message.expires_at,
    message.created_at,
    message.created_by,
    message.finished_at,
    counts.receiver_states,
    counts.receivers
   FROM (public.messages message
     CROSS JOIN LATERAL ( SELECT COALESCE(array_agg(counted.state), '{}'::text[]) AS receiver_states,
            COALESCE(array_agg(counted.receivers), '{}'::bigint[]) AS receivers
           FROM ( SELECT message_receivers.state,
                    count(*) AS receivers
                   FROM public.message_receivers
                  WHERE (message_receivers.message_id = message.id)
                  GROUP BY message_receivers.state) counted) counts);
CREATE TABLE public.operator_keys (
    sha256 bytea NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    name text NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by text,
    created_by_key uuid,
    idempotency_key text,
    request_sha256 bytea,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone,
    CONSTRAINT operator_keys_check CHECK (((request_sha256 IS NULL) = (idempotency_key IS NULL))),
    CONSTRAINT operator_keys_sha256_check CHECK ((octet_length(sha256) = 32))
);
CREATE TABLE public.operator_sessions (
    sha256 bytea NOT NULL,
    id uuid NOT NULL,
    key_id uuid NOT NULL,
    key_sha256 bytea NOT NULL,
    address text NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    ends_at timestamp with time zone NOT NULL,
    CONSTRAINT operator_sessions_key_sha256_check CHECK ((octet_length(key_sha256) = 32)),
    CONSTRAINT operator_sessions_sha256_check CHECK ((octet_length(sha256) = 32))
);
CREATE TABLE public.pending_unlinks (
    user_id bigint NOT NULL,
    requested_at timestamp with time zone DEFAULT now() NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    next_attempt_at timestamp with time zone DEFAULT now() NOT NULL,
    lease uuid,
    lease_ends_at timestamp with time zone,
    CONSTRAINT pending_unlinks_lease_check CHECK (((lease IS NULL) = (lease_ends_at IS NULL)))
);
CREATE TABLE public.push_batches (
    push_id uuid NOT NULL,
    number integer NOT NULL,
    users integer NOT NULL,
    user_ids bigint[],
    origin integer,
    state text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    next_attempt_at timestamp with time zone DEFAULT now() NOT NULL,
    lease uuid,
    claims integer DEFAULT 0 NOT NULL,
    may_repeat boolean DEFAULT false NOT NULL,
    kakao_status integer,
    kakao_code integer,
    kakao_message text,
    finished_at timestamp with time zone,
    CONSTRAINT push_batches_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'sending'::text, 'sent'::text, 'failed'::text, 'uncertain'::text]))),
    CONSTRAINT push_batches_user_ids_check CHECK (((cardinality(user_ids) >= 1) AND (cardinality(user_ids) <= 100)))
)
WITH (toast_tuple_target='128', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_insert_scale_factor='0', autovacuum_vacuum_insert_threshold='200000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='1');
ALTER TABLE ONLY public.push_batches ALTER COLUMN user_ids SET STATISTICS 0;
ALTER TABLE ONLY public.push_batches ALTER COLUMN user_ids SET STORAGE EXTERNAL;
CREATE TABLE public.push_claims (
    push_id uuid NOT NULL,
    number integer NOT NULL,
    batch_users integer NOT NULL,
    users integer NOT NULL,
    lease uuid,
    settled bit varying NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT push_claims_batch_users_check CHECK (((batch_users >= 1) AND (batch_users <= 100))),
    CONSTRAINT push_claims_check CHECK (((users >= ((batch_users * (length((settled)::"bit") - 1)) + 1)) AND (users <= (batch_users * length((settled)::"bit"))))),
    CONSTRAINT push_claims_users_check CHECK ((users > 0))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');
CREATE TABLE public.push_counts (
    push_id uuid NOT NULL,
    slot integer NOT NULL,
    state text NOT NULL,
    users bigint NOT NULL,
    batches bigint NOT NULL,
    may_repeat bigint DEFAULT 0 NOT NULL,
    CONSTRAINT push_counts_state_check CHECK ((state = ANY (ARRAY['sent'::text, 'failed'::text, 'uncertain'::text])))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');
CREATE TABLE public.push_open_counts (
    push_id uuid NOT NULL,
    slot integer NOT NULL,
    users bigint NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');
CREATE TABLE public.push_opens (
    push_id uuid NOT NULL,
    user_id bigint NOT NULL,
    opened_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE public.push_parts (
    push_id uuid NOT NULL,
    number integer NOT NULL,
    batch_users integer NOT NULL,
    batches integer NOT NULL,
    claimed integer DEFAULT 0 NOT NULL,
    ids bytea NOT NULL,
    id_bytes integer NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT push_parts_batch_users_check CHECK (((batch_users >= 1) AND (batch_users <= 100))),
    CONSTRAINT push_parts_batches_check CHECK ((batches > 0)),
    CONSTRAINT push_parts_check CHECK (((claimed >= 0) AND (claimed <= batches))),
    CONSTRAINT push_parts_id_bytes_check CHECK (((id_bytes >= 1) AND (id_bytes <= 8))),
    CONSTRAINT push_parts_ids_check CHECK (((octet_length(ids) >= (id_bytes * (((batches - 1) * batch_users) + 1))) AND (octet_length(ids) <= ((id_bytes * batches) * batch_users))))
)
WITH (toast_tuple_target='128', fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000');
ALTER TABLE ONLY public.push_parts ALTER COLUMN ids SET STATISTICS 0;
ALTER TABLE ONLY public.push_parts ALTER COLUMN ids SET STORAGE EXTERNAL;
CREATE TABLE public.push_skipped (
    push_id uuid NOT NULL,
    cause text NOT NULL,
    "position" bigint NOT NULL,
    ids bytea NOT NULL,
    id_bytes integer NOT NULL,
    CONSTRAINT push_skipped_cause_check CHECK ((cause = ANY (ARRAY['excluded'::text, 'without_consent'::text, 'no_device'::text]))),
    CONSTRAINT push_skipped_id_bytes_check CHECK (((id_bytes >= 1) AND (id_bytes <= 8))),
    CONSTRAINT push_skipped_ids_check CHECK (((octet_length(ids) > 0) AND ((octet_length(ids) % id_bytes) = 0)))
)
WITH (toast_tuple_target='128');
ALTER TABLE ONLY public.push_skipped ALTER COLUMN ids SET STATISTICS 0;
ALTER TABLE ONLY public.push_skipped ALTER COLUMN ids SET STORAGE EXTERNAL;
CREATE TABLE public.pushes (
    id uuid NOT NULL,
    name text,
    state text NOT NULL,
    reason text,
    audience jsonb NOT NULL,
    user_ids bigint[],
    audience_parts_id uuid,
    exclusion jsonb,
    excluded_parts_id uuid,
    excluded_pushes uuid[],
    platforms text[] DEFAULT '{}'::text[] NOT NULL,
    message text NOT NULL,
    message_version text NOT NULL,
    bypass boolean DEFAULT false NOT NULL,
    first_words text DEFAULT ''::text NOT NULL,
    warnings jsonb DEFAULT '[]'::jsonb NOT NULL,
    kind text,
    to_testers boolean DEFAULT false NOT NULL,
    delivery text DEFAULT 'at_least_once'::text NOT NULL,
    users_per_second integer,
    send_at timestamp with time zone,
    expires_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    created_by text,
    created_by_key uuid,
    counted_users bigint,
    allowed_users bigint,
    approved_at timestamp with time zone,
    approved_by text,
    approved_by_key uuid,
    stopped_by text,
    batch_users integer DEFAULT 100 NOT NULL,
    prepared_up_to bigint DEFAULT 0 NOT NULL,
    prepared_at timestamp with time zone,
    users bigint DEFAULT 0 NOT NULL,
    users_skipped bigint DEFAULT 0 NOT NULL,
    users_no_device bigint DEFAULT 0 NOT NULL,
    users_excluded bigint DEFAULT 0 NOT NULL,
    users_without_consent bigint DEFAULT 0 NOT NULL,
    next_number integer DEFAULT 1 NOT NULL,
    probe integer,
    probe_sent bigint DEFAULT 0 NOT NULL,
    rate_users double precision DEFAULT 0 NOT NULL,
    rate_at timestamp with time zone DEFAULT now() NOT NULL,
    presumed_until integer,
    retry_position integer,
    retry_end integer,
    retry_uncertain boolean DEFAULT false NOT NULL,
    removed_at timestamp with time zone,
    ended_at_night boolean DEFAULT false NOT NULL,
    CONSTRAINT pushes_batch_users_check CHECK (((batch_users >= 1) AND (batch_users <= 100))),
    CONSTRAINT pushes_delivery_check CHECK ((delivery = ANY (ARRAY['at_least_once'::text, 'at_most_once'::text]))),
    CONSTRAINT pushes_kind_check CHECK ((kind = ANY (ARRAY['advertising'::text, 'informational'::text]))),
    CONSTRAINT pushes_message_version_check CHECK ((message_version = ANY (ARRAY['v1'::text, 'v2'::text]))),
    CONSTRAINT pushes_retry_check CHECK (((retry_position IS NULL) = (retry_end IS NULL))),
    CONSTRAINT pushes_state_check CHECK ((state = ANY (ARRAY['proposed'::text, 'scheduled'::text, 'preparing'::text, 'sending'::text, 'done'::text, 'paused'::text, 'canceled'::text, 'expired'::text, 'halted'::text])))
);
ALTER TABLE ONLY public.pushes ALTER COLUMN user_ids SET STATISTICS 0;
CREATE VIEW public.push_summaries AS
 SELECT push.id,
    push.name,
    push.created_by,
    push.created_by_key,
    push.kind,
    push.state,
    push.reason,
    push.audience,
    push.to_testers,
    push.counted_users,
    public.push_awaits_approval(push.state, push.created_at, push.expires_at, push.prepared_at, (push.users - push.users_skipped), push.allowed_users) AS awaits_approval,
    push.approved_by,
    push.approved_at,
    push.stopped_by,
    public.message_tested_before(push.message, push.message_version, COALESCE(push.started_at, push.finished_at)) AS last_tested_at,
    push.exclusion,
    public.push_waits_for(push.excluded_pushes, push.prepared_at, push.finished_at) AS waits_for,
    push.delivery,
    push.users_per_second,
    push.send_at,
    push.expires_at,
    push.created_at,
    push.started_at,
    push.finished_at,
    push.first_words,
    encode(sha256(convert_to(push.message, 'UTF8'::name)), 'hex'::text) AS message_sha256,
    push.warnings,
    push.users,
    counts.users_sent,
    counts.users_failed,
    counts.users_uncertain,
    push.users_skipped,
    counts.users_may_repeat,
    ((push.next_number)::bigint - 1) AS batches,
    counts.batches_sent,
    counts.batches_failed,
    counts.batches_uncertain,
    ( SELECT (COALESCE(sum(opens.users), (0)::numeric))::bigint AS "coalesce"
           FROM public.push_open_counts opens
          WHERE (opens.push_id = push.id)) AS users_opened,
        CASE push.prepared_up_to
            WHEN 0 THEN push.users_skipped
            ELSE push.users_no_device
        END AS users_no_device,
    push.users_excluded,
    push.users_without_consent,
        CASE
            WHEN (push.state = ANY (ARRAY['canceled'::text, 'expired'::text])) THEN (((((push.users - push.users_skipped) - counts.users_sent) - counts.users_failed) - counts.users_uncertain) - ended.users_unanswered)
            ELSE (0)::bigint
        END AS users_unsent,
        CASE
            WHEN ((push.state = 'canceled'::text) AND (push.reason IS NOT NULL)) THEN 'rejected'::text
            WHEN (push.state = ANY (ARRAY['canceled'::text, 'expired'::text])) THEN
            CASE
                WHEN push.ended_at_night THEN 'night'::text
                ELSE push.state
            END
            ELSE NULL::text
        END AS unsent_cause,
    (push.prepared_at IS NOT NULL) AS is_prepared,
    ended.users_unanswered
   FROM ((public.pushes push
     CROSS JOIN LATERAL ( SELECT (COALESCE(sum(push_counts.users) FILTER (WHERE (push_counts.state = 'sent'::text)), (0)::numeric))::bigint AS users_sent,
            (COALESCE(sum(push_counts.users) FILTER (WHERE (push_counts.state = 'failed'::text)), (0)::numeric))::bigint AS users_failed,
            (COALESCE(sum(push_counts.users) FILTER (WHERE (push_counts.state = 'uncertain'::text)), (0)::numeric))::bigint AS users_uncertain,
            (COALESCE(sum(push_counts.may_repeat), (0)::numeric))::bigint AS users_may_repeat,
            (COALESCE(sum(push_counts.batches) FILTER (WHERE (push_counts.state = 'sent'::text)), (0)::numeric))::bigint AS batches_sent,
            (COALESCE(sum(push_counts.batches) FILTER (WHERE (push_counts.state = 'failed'::text)), (0)::numeric))::bigint AS batches_failed,
            (COALESCE(sum(push_counts.batches) FILTER (WHERE (push_counts.state = 'uncertain'::text)), (0)::numeric))::bigint AS batches_uncertain
           FROM public.push_counts
          WHERE (push_counts.push_id = push.id)) counts)
     CROSS JOIN LATERAL ( SELECT COALESCE(sum(push_batches.users), (0)::bigint) AS users_unanswered
           FROM public.push_batches
          WHERE ((push_batches.push_id = push.id) AND (push_batches.state = 'waiting'::text) AND push_batches.may_repeat AND (push.state = ANY (ARRAY['canceled'::text, 'expired'::text])))) ended);
CREATE TABLE public.requested_unlinks (
    user_id bigint NOT NULL,
    requested_at timestamp with time zone NOT NULL
);
CREATE TABLE public.schema_functions (
    name text NOT NULL,
    checksum bytea NOT NULL,
    triggers integer NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE public.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum bytea NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE public.sender (
    is_only boolean DEFAULT true NOT NULL,
    stopped_at timestamp with time zone,
    reason text,
    stopped_by text,
    halted_at timestamp with time zone,
    halt_reason text,
    commits_lost_at timestamp with time zone,
    run text,
    run_seen_at timestamp with time zone,
    CONSTRAINT sender_check CHECK ((((stopped_at IS NULL) = (reason IS NULL)) AND ((stopped_at IS NULL) = (stopped_by IS NULL)))),
    CONSTRAINT sender_check1 CHECK (((halted_at IS NULL) = (halt_reason IS NULL))),
    CONSTRAINT sender_is_only_check CHECK (is_only)
);
CREATE TABLE public.share_conversions (
    share_id uuid NOT NULL,
    event text NOT NULL,
    user_id bigint NOT NULL,
    converted_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE public.share_counts (
    share_id uuid NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    count bigint NOT NULL
)
WITH (fillfactor='80');
ALTER TABLE public.share_events ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.share_events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 100
);
CREATE TABLE public.share_statistics (
    dimension text NOT NULL,
    hour timestamp with time zone NOT NULL,
    value text NOT NULL,
    arrivals integer NOT NULL,
    landings integer NOT NULL,
    conversions integer NOT NULL
)
WITH (fillfactor='80');
CREATE TABLE public.share_statistics_days (
    dimension text NOT NULL,
    day date NOT NULL,
    value text NOT NULL,
    arrivals integer NOT NULL,
    landings integer NOT NULL,
    conversions integer NOT NULL
)
WITH (fillfactor='80');
CREATE UNLOGGED TABLE public.share_visits (
    share_id uuid NOT NULL,
    visitor bytea NOT NULL,
    counted_at timestamp with time zone NOT NULL
);
CREATE TABLE public.shares (
    id uuid NOT NULL,
    campaign text,
    template_id bigint,
    args jsonb NOT NULL,
    links text[] NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL
);
CREATE TABLE public.webhook_endpoints (
    name text NOT NULL,
    url_sha256 bytea NOT NULL,
    types text[] NOT NULL,
    state text DEFAULT 'delivering'::text NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL,
    probes integer DEFAULT 0 NOT NULL,
    next_probe_at timestamp with time zone DEFAULT now() NOT NULL,
    last_error text,
    last_error_at timestamp with time zone,
    confirmed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT webhook_endpoints_check CHECK (((last_error IS NULL) = (last_error_at IS NULL))),
    CONSTRAINT webhook_endpoints_state_check CHECK ((state = ANY (ARRAY['delivering'::text, 'failing'::text, 'gone'::text, 'removed'::text]))),
    CONSTRAINT webhook_endpoints_url_sha256_check CHECK ((length(url_sha256) = 32))
);
CREATE TABLE public.webhook_events (
    id uuid NOT NULL,
    endpoint text NOT NULL,
    type text NOT NULL,
    happened_at timestamp with time zone DEFAULT now() NOT NULL,
    stored_at timestamp with time zone DEFAULT now() NOT NULL,
    user_id bigint,
    subject text NOT NULL,
    revision bigint DEFAULT ((EXTRACT(epoch FROM clock_timestamp()) * (1000000)::numeric))::bigint NOT NULL,
    data jsonb,
    state text DEFAULT 'pending'::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    replayed_from text,
    lease uuid,
    claims integer DEFAULT 0 NOT NULL,
    last_status integer,
    last_error text,
    CONSTRAINT webhook_events_check CHECK (((lease IS NOT NULL) = (state = 'sending'::text))),
    CONSTRAINT webhook_events_replayed_from_check CHECK ((replayed_from = ANY (ARRAY['delivered'::text, 'failed'::text, 'dropped'::text]))),
    CONSTRAINT webhook_events_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'sending'::text, 'delivered'::text, 'failed'::text, 'dropped'::text])))
);
CREATE TABLE public.webhook_replays (
    id uuid NOT NULL,
    endpoint text NOT NULL,
    since timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    types text[] NOT NULL,
    "position" uuid NOT NULL
);
CREATE TABLE public.work_leases (
    id uuid NOT NULL,
    queue text NOT NULL,
    ends_at timestamp with time zone NOT NULL,
    host text DEFAULT ''::text NOT NULL,
    version text DEFAULT ''::text NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    process uuid,
    checked_run text
);
INSERT INTO public.image_storage VALUES (true, 0);
INSERT INTO public.schema_functions VALUES ('account_summaries', '\xafc711d193e54e9911bdce25e7078b381ff8b67fdaa0d8c913fd885ddff5f577', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('advertising_begins', '\x2a773fedc71528fcd09786a125f645dfb7e7de6a09e920af0af0326aac64f751', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('advertising_ends', '\x53ebf475c4c47345f229e8e7f5e72b55e8eb72b7713424343af9443af8d5b5ff', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('commits_are_checked', '\x0159a63ee1417ffb3912496514c20a7157db9be885b1c0160fc1eb57993fa1de', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('database_run', '\x7bc5f0bd019766934c55c6e26b11e1d2bf4773ea84fd057aee9b57255e75912e', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('delete_departed_relations', '\x6fb05a3a3055a4843bc94539df16d799ac85e16d060adba17d4b71e0d85d8b73', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('delete_unused_quota', '\x4c37bf6760c37c321da81ead6936ed8b1a3a981d46bddca07944d3f083efaad3', 1, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('device_change_is_stored', '\xc626a33e569d7e0995fc6a7e6b402d846f410f1aa5b7e5f2d0f6eedc6e842016', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('find_pushes', '\x22a74bee534fefca0932974a65df08597a5c3ce671c50b453be1848a67a3ad73', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('is_departure', '\x547a88091908accabf36aae89d697f0530acda3a80986bd004e96bd2b4da0f61', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('limit_added_devices', '\x4a4973a7d59aa23b085d87dadbc23a28ff7e75b9d5135d103853e22351dd8a4c', 1, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('limit_returned_device', '\x58814117926aad1c6c313026df5143cecc6037bc0e11e48b2b82b01fb756dd4b', 1, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('list_audit_records', '\x6b47a13f8dc441d516d639c118b84e3dc5a00e4e6584b867491694d1b3f50675', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('merge_share_events', '\xf3147cfd011752d9251758d4def878dc545e01337bed66609f92366cf1a1e89e', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('message_summaries', '\x4efc60259bf7e8b685b51e9f96be3ad5b6b8fc54d1db19b403f9f43f656553a4', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('message_tested_before', '\x77a18727debe241d7d7175a2d426a5e052482a0b465b686323ec510b6d538b0d', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('operator_keys_are_related', '\xdbcf84b7466df5adf47b331b28b71932eadfe3772b404fe6720455507203104d', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('pending_share_statistics', '\x74ff4a02dd5dd125c19981c849bb34a617aca7315e20c65ec290b5a8529f8a89', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('push_awaits_approval', '\xca38b8172a0f3467df7b50636f1147cd9208d6eb639c3649e21892fb373fb917', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('push_is_settled', '\xc966a579b6ce78dce2081459654b385483450f57ba7a228b2575e503fb7faae8', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('push_open_probe', '\x08bd887b8b890df7ae600cef89c169852571bd2ff2c9c9a2cf37a6870958ad35', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('push_part_users', '\xdeeb7386bd7280dd5f58b07da25d8153bdee641c18a8fdaf25c8ef1edc07a39e', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('push_shown_state', '\xfe60c4359166150f86edfbcf5e42aa78ad52f2cf6e7e7c15dc7291d63867b129', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('push_summaries', '\xec5d0e0435491535e05394fb4345fc480ad28c1c4e8bd9d87e2a053b1997baf7', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('push_user', '\xa3e60cc5df1126305e8b9cc155d92929d89174c314e02b87dff435e60577c81f', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('push_user_batch', '\x69b2ab9482e9aab96b96b8122c61eb010f3e3183719be222f4e980a48d4bec6d', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('push_users', '\x7938e5bd5adc0bbbcb69c6e06e984767dcef66a878b9b35dfe9ec53c3c405bc6', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('push_users_sent', '\x8c96d85e39ce282d84f19e987e7530accbd0be8539ecfbb1558e8ba5c58ee177', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('push_waits_for', '\xeba30c53b861c7c9976d08e98e236343e290099ae0bfdd5747832b1ec3b89bf3', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('pushes_are_excludable', '\x392ea0fe91050c90f44dc4298656dcf2b7ff9fffbf6592fd67209e8791025c7a', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('record_account', '\x5470a1fea97c2354668be78c509c80452e45c96dbfde31e490646998f82f353a', 1, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('record_former_device', '\x4792771ecc25f20451fbb15ac0ba14d343f7597397b12e0aec395f89c7494cf4', 1, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('record_message', '\x6fa412a11fd7b8fd7b3cabfd3469213e5d777ecd153a7e4e0a33d4e750932f9d', 1, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('record_push', '\xcd4f11cb968a2b64d5eff953c29657e1612680d098f6348baad3c6bdb473a61d', 2, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('record_sender', '\x329bd0a8d2015c0d610b7a39f9ae8d9c2e77ca5615b316f18809c6ad6e3c597b', 1, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('record_withdrawal', '\x857a3a239438c63ffb10a4b3860f09ab5c549eed66c8982626afc10317bd5bf6', 1, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('run_wait', '\xa2975d848648fce47bab7b66231d2220713ba9ccbf8202500093c04f927369ef', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('share_event_statistics', '\x2ed95df769fbbfbae53a0f996a2272c180b6a6e555974a4f39f4be858bb007fd', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('share_totals', '\xaa98ae5d505c51a534d65e76e254ef035ce620434a9298d33f056f7e8e61435b', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('tags_with_channel', '\xdd6e3fe2342b16121235cdfa353de4d7bb82dd60b9fa8aba978575fe500b8f52', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('user_has_left', '\x929f6a7937d4ff15e9e3ca18d055ee042b5acd8048061d7528e47ebccbc9cc57', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('uuid_v7', '\x011fb50a081583181c3c9c64b2b3b8efa2a1c265f7857246b0439db691cc07db', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('uuid_v7_floor', '\x3512f7792ece1030e869f58c8cee430738d7e6940ad9fb5169b6b17a3904e01c', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('webhook_revision', '\x8095995c36f1ab6a1b268590aff5a2f066ff07dc2205a604d2d5635b078a67e5', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('withdraw_departed_devices', '\xa4eaf247501937eaaab487d084cfd878d32c9f76294278889f84647e9e2801cc', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('withdraw_oldest_devices', '\xb628ebdaea9814a1968e001dd8ca76d5282fec24441f5c0afcb00ad9ff9e43e3', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_functions VALUES ('withdrawal', '\x7da03c40beba501ca7f5cceffbecce280a5c84ad55e0393443b3e6c289240544', 0, '1970-01-01 00:00:00+00');
INSERT INTO public.schema_migrations VALUES (1, 'devices', '\x3ec9f341082e61a061290aad79ddfe0f776b90f49ee78c3e33e6b9150e076818', '1970-01-01 00:00:00+00');
INSERT INTO public.schema_migrations VALUES (2, 'pushes', '\x6cbb5b1da3f1268ddc56b0935d4b87fa01cc66d5946949622417a699d3290b5a', '1970-01-01 00:00:00+00');
INSERT INTO public.schema_migrations VALUES (3, 'callbacks', '\x51701263d317103d76b7e6b982fbdbb3efdb0ac2a5fda28872b6d2bd074f4802', '1970-01-01 00:00:00+00');
INSERT INTO public.schema_migrations VALUES (4, 'sharing', '\xeba5fb22c81f47208d5ece5cb867d66ddfac8f2deacbe08b8b832a72300dc475', '1970-01-01 00:00:00+00');
INSERT INTO public.schema_migrations VALUES (5, 'accounts', '\x14563b41317a80bccaf7f124173e5dcdcc8654aced11072063eec1e27539c873', '1970-01-01 00:00:00+00');
INSERT INTO public.schema_migrations VALUES (6, 'messages', '\xb9a72211badd715a11a36fe10547f53522406b4acef871ca2aaee6021485037f', '1970-01-01 00:00:00+00');
INSERT INTO public.schema_migrations VALUES (7, 'webhooks', '\x654e4dc367a26bf49083332d959963188c521bf802fd1ffc13cd0b6365b1870e', '1970-01-01 00:00:00+00');
INSERT INTO public.schema_migrations VALUES (8, 'operator_keys', '\x3c63696af48fb8fcb06412990c0ebf56f736a32ebdd60988ef857472c4fde30d', '1970-01-01 00:00:00+00');
INSERT INTO public.schema_migrations VALUES (9, 'operation', '\xa4a14c5aad1221f2125bc10ed0dc79963e15929a0efd9ba6893acb5fb1e9177d', '1970-01-01 00:00:00+00');
INSERT INTO public.schema_migrations VALUES (10, 'audit', '\xa112b55bd954f40af4eb7a73ac30c2c5fbc4fdb35b38f6540b8424b3f3ad3bcb', '1970-01-01 00:00:00+00');
INSERT INTO public.schema_migrations VALUES (11, 'channels', '\x4f23481adac6a67d5a4bc44dd35779c167657bf59442498062885553477e3a59', '1970-01-01 00:00:00+00');
INSERT INTO public.sender VALUES (true, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT pg_catalog.setval('public.share_events_id_seq', 1, false);
ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (user_id);
ALTER TABLE ONLY public.audience_parts
    ADD CONSTRAINT audience_parts_pkey PRIMARY KEY (parts_id, number);
ALTER TABLE ONLY public.audiences
    ADD CONSTRAINT audiences_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.audit_records
    ADD CONSTRAINT audit_records_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.channel_relations
    ADD CONSTRAINT channel_relations_pkey PRIMARY KEY (id_type, id, channel_public_id);
ALTER TABLE ONLY public.customer_upload_parts
    ADD CONSTRAINT customer_upload_parts_pkey PRIMARY KEY (upload_id, number);
ALTER TABLE ONLY public.customer_upload_users
    ADD CONSTRAINT customer_upload_users_pkey PRIMARY KEY (upload_id, number);
ALTER TABLE ONLY public.customer_uploads
    ADD CONSTRAINT customer_uploads_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.devices
    ADD CONSTRAINT devices_pkey PRIMARY KEY (user_id, device_id, push_type) INCLUDE (withdrawn);
ALTER TABLE ONLY public.erased_users
    ADD CONSTRAINT erased_users_pkey PRIMARY KEY (user_id);
ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.former_devices
    ADD CONSTRAINT former_devices_pkey PRIMARY KEY (user_id, device_id, push_type);
ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (operator_key, key);
ALTER TABLE ONLY public.image_storage
    ADD CONSTRAINT image_storage_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.images
    ADD CONSTRAINT images_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.images
    ADD CONSTRAINT images_sha256_key UNIQUE (sha256);
ALTER TABLE ONLY public.kakao_calls
    ADD CONSTRAINT kakao_calls_pkey PRIMARY KEY (month);
ALTER TABLE ONLY public.link_callbacks
    ADD CONSTRAINT link_callbacks_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.login_results
    ADD CONSTRAINT login_results_pkey PRIMARY KEY (sha256);
ALTER TABLE ONLY public.message_quotas
    ADD CONSTRAINT message_quotas_pkey PRIMARY KEY (day, quota, sender, receiver);
ALTER TABLE ONLY public.message_receivers
    ADD CONSTRAINT message_receivers_pkey PRIMARY KEY (message_id, "position");
ALTER TABLE ONLY public.messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.operator_keys
    ADD CONSTRAINT operator_keys_pkey PRIMARY KEY (sha256);
ALTER TABLE ONLY public.operator_sessions
    ADD CONSTRAINT operator_sessions_pkey PRIMARY KEY (sha256);
ALTER TABLE ONLY public.pending_unlinks
    ADD CONSTRAINT pending_unlinks_pkey PRIMARY KEY (user_id);
ALTER TABLE ONLY public.push_batches
    ADD CONSTRAINT push_batches_pkey PRIMARY KEY (push_id, number);
ALTER TABLE ONLY public.push_claims
    ADD CONSTRAINT push_claims_pkey PRIMARY KEY (push_id, number);
ALTER TABLE ONLY public.push_counts
    ADD CONSTRAINT push_counts_pkey PRIMARY KEY (push_id, slot, state);
ALTER TABLE ONLY public.push_open_counts
    ADD CONSTRAINT push_open_counts_pkey PRIMARY KEY (push_id, slot);
ALTER TABLE ONLY public.push_opens
    ADD CONSTRAINT push_opens_pkey PRIMARY KEY (push_id, user_id);
ALTER TABLE ONLY public.push_parts
    ADD CONSTRAINT push_parts_pkey PRIMARY KEY (push_id, number);
ALTER TABLE ONLY public.push_skipped
    ADD CONSTRAINT push_skipped_pkey PRIMARY KEY (push_id, cause, "position");
ALTER TABLE ONLY public.pushes
    ADD CONSTRAINT pushes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.requested_unlinks
    ADD CONSTRAINT requested_unlinks_pkey PRIMARY KEY (user_id);
ALTER TABLE ONLY public.schema_functions
    ADD CONSTRAINT schema_functions_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.sender
    ADD CONSTRAINT sender_pkey PRIMARY KEY (is_only);
ALTER TABLE ONLY public.share_conversions
    ADD CONSTRAINT share_conversions_pkey PRIMARY KEY (share_id, event, user_id);
ALTER TABLE ONLY public.share_counts
    ADD CONSTRAINT share_counts_pkey PRIMARY KEY (share_id, kind, name);
ALTER TABLE ONLY public.share_events
    ADD CONSTRAINT share_events_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.share_statistics_days
    ADD CONSTRAINT share_statistics_days_pkey PRIMARY KEY (dimension, day, value);
ALTER TABLE ONLY public.share_statistics
    ADD CONSTRAINT share_statistics_pkey PRIMARY KEY (dimension, hour, value);
ALTER TABLE ONLY public.share_visits
    ADD CONSTRAINT share_visits_pkey PRIMARY KEY (share_id, visitor);
ALTER TABLE ONLY public.shares
    ADD CONSTRAINT shares_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.webhook_endpoints
    ADD CONSTRAINT webhook_endpoints_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.webhook_events
    ADD CONSTRAINT webhook_events_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.webhook_replays
    ADD CONSTRAINT webhook_replays_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.work_leases
    ADD CONSTRAINT work_leases_pkey PRIMARY KEY (id);
CREATE INDEX accounts_key_id ON public.accounts USING btree (key_id, user_id) WHERE (tokens IS NOT NULL);
CREATE INDEX accounts_refresh_token_ends_at ON public.accounts USING btree (refresh_token_ends_at) WHERE (state = 'linked'::text);
CREATE INDEX accounts_renew_at ON public.accounts USING btree (renew_at) WHERE ((state = 'linked'::text) AND (refreshed_by = 'server'::text));
CREATE INDEX accounts_state ON public.accounts USING btree (state, user_id);
CREATE INDEX audience_parts_first_user ON public.audience_parts USING btree (parts_id, (user_ids[1]));
CREATE INDEX audit_records_key_id ON public.audit_records USING btree (key_id, id);
CREATE INDEX audit_records_object ON public.audit_records USING btree (object, id) WHERE (object IS NOT NULL);
CREATE INDEX audit_records_operation ON public.audit_records USING btree (operation, id);
CREATE INDEX audit_records_user_id ON public.audit_records USING btree (user_id, id) WHERE (user_id IS NOT NULL);
CREATE INDEX channel_relations_deletable ON public.channel_relations USING btree (stored_at) WHERE ((id_type = 'open_id'::text) OR (relation = 'BLOCKED'::text));
CREATE INDEX customer_upload_parts_due ON public.customer_upload_parts USING btree (due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX customer_upload_parts_leased ON public.customer_upload_parts USING btree (lease) WHERE (lease IS NOT NULL);
CREATE INDEX customer_upload_users_ids ON public.customer_upload_users USING gin (user_ids);
CREATE INDEX customer_uploads_finished ON public.customer_uploads USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX customer_uploads_sending ON public.customer_uploads USING btree (channel_public_id, file_id, id) WHERE (state = 'sending'::text);
CREATE INDEX devices_push_token ON public.devices USING hash (push_token);
CREATE INDEX devices_renew_at ON public.devices USING btree (renew_at) WHERE (renew_at IS NOT NULL);
CREATE INDEX devices_unsettled ON public.devices USING btree (next_attempt_at) WHERE (kakao_revision < revision);
CREATE INDEX erased_users_erased_at ON public.erased_users USING btree (erased_at);
CREATE INDEX events_id ON public.events USING btree (id);
CREATE INDEX events_malformed ON public.events USING btree (id) WHERE (raw IS NOT NULL);
CREATE INDEX events_stored_at ON public.events USING brin (stored_at);
CREATE INDEX events_type ON public.events USING btree (type, id);
CREATE INDEX events_user_id ON public.events USING btree (user_id);
CREATE INDEX former_devices_withdrawn_at ON public.former_devices USING btree (withdrawn_at);
CREATE INDEX idempotency_keys_push_id ON public.idempotency_keys USING btree (push_id);
CREATE INDEX link_callbacks_id ON public.link_callbacks USING btree (id);
CREATE INDEX link_callbacks_share ON public.link_callbacks USING btree (share_id, id) WHERE (share_id IS NOT NULL);
CREATE INDEX link_callbacks_stored_at ON public.link_callbacks USING brin (stored_at);
CREATE INDEX login_results_ends_at ON public.login_results USING btree (ends_at);
CREATE INDEX message_receivers_due ON public.message_receivers USING btree (due_at, message_id, "position") WHERE (due_at IS NOT NULL);
CREATE INDEX message_receivers_leased ON public.message_receivers USING btree (lease) WHERE (lease IS NOT NULL);
CREATE INDEX message_receivers_user ON public.message_receivers USING btree (user_id) WHERE (user_id IS NOT NULL);
CREATE INDEX messages_active ON public.messages USING btree (send_at, id) WHERE (state = 'active'::text);
CREATE INDEX messages_expiring ON public.messages USING btree (expires_at) WHERE ((state = 'active'::text) AND (expires_at IS NOT NULL));
CREATE INDEX messages_finished ON public.messages USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE UNIQUE INDEX messages_idempotency_key ON public.messages USING btree (operator_key, idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX messages_sender ON public.messages USING btree (sender, id);
CREATE INDEX messages_unresolved ON public.messages USING btree (resolve_at) WHERE ((state = 'active'::text) AND (resolve_at IS NOT NULL));
CREATE UNIQUE INDEX operator_keys_id ON public.operator_keys USING btree (id);
CREATE UNIQUE INDEX operator_keys_request ON public.operator_keys USING btree (created_by_key, idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX operator_sessions_ends_at ON public.operator_sessions USING btree (ends_at);
CREATE INDEX operator_sessions_key ON public.operator_sessions USING btree (key_id);
CREATE INDEX pending_unlinks_next_attempt_at ON public.pending_unlinks USING btree (next_attempt_at);
CREATE INDEX push_batches_origin ON public.push_batches USING btree (push_id, origin) WHERE (origin IS NOT NULL);
CREATE INDEX push_batches_sending ON public.push_batches USING btree (lease) WHERE (state = 'sending'::text);
CREATE INDEX push_batches_unsent ON public.push_batches USING btree (push_id, state, number) WHERE (state = ANY (ARRAY['failed'::text, 'uncertain'::text]));
CREATE INDEX push_batches_waiting ON public.push_batches USING btree (push_id, next_attempt_at, number) WHERE (state = 'waiting'::text);
CREATE INDEX push_claims_open ON public.push_claims USING btree (lease) WHERE (lease IS NOT NULL);
CREATE INDEX push_opens_user_id ON public.push_opens USING btree (user_id);
CREATE INDEX push_parts_unclaimed ON public.push_parts USING btree (push_id, number) WHERE (claimed < batches);
CREATE INDEX pushes_audience_parts ON public.pushes USING btree (audience_parts_id) WHERE ((audience_parts_id IS NOT NULL) AND (state = ANY (ARRAY['proposed'::text, 'scheduled'::text, 'preparing'::text, 'paused'::text, 'halted'::text, 'sending'::text])));
CREATE INDEX pushes_begun_to_one ON public.pushes USING btree ((user_ids[1]), started_at, id) WHERE ((cardinality(user_ids) = 1) AND (started_at IS NOT NULL));
CREATE INDEX pushes_begun_to_several ON public.pushes USING btree (started_at, id) WHERE ((cardinality(user_ids) IS DISTINCT FROM 1) AND (started_at IS NOT NULL));
CREATE INDEX pushes_created_by ON public.pushes USING btree (created_by, id) WHERE (created_by IS NOT NULL);
CREATE INDEX pushes_excluded_parts ON public.pushes USING btree (excluded_parts_id) WHERE ((excluded_parts_id IS NOT NULL) AND (state = ANY (ARRAY['proposed'::text, 'scheduled'::text, 'preparing'::text, 'paused'::text, 'halted'::text, 'sending'::text])));
CREATE INDEX pushes_excluding ON public.pushes USING btree (id) WHERE ((excluded_pushes IS NOT NULL) AND (prepared_at IS NULL) AND (finished_at IS NULL));
CREATE INDEX pushes_finished ON public.pushes USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX pushes_name ON public.pushes USING btree (name COLLATE "C", id) WHERE (name IS NOT NULL);
CREATE INDEX pushes_open ON public.pushes USING btree (id) WHERE (finished_at IS NULL);
CREATE INDEX pushes_stopped ON public.pushes USING btree (state, id) WHERE (state = ANY (ARRAY['proposed'::text, 'paused'::text, 'halted'::text]));
CREATE INDEX pushes_tested ON public.pushes USING hash (message) WHERE to_testers;
CREATE INDEX pushes_unfinished ON public.pushes USING btree (send_at) WHERE (state = ANY (ARRAY['scheduled'::text, 'preparing'::text, 'sending'::text]));
CREATE INDEX requested_unlinks_requested_at ON public.requested_unlinks USING btree (requested_at);
CREATE INDEX share_conversions_user_id ON public.share_conversions USING btree (user_id);
CREATE INDEX share_visits_counted_at ON public.share_visits USING btree (counted_at);
CREATE INDEX shares_campaign ON public.shares USING btree (campaign, id) WHERE (campaign IS NOT NULL);
CREATE INDEX webhook_events_due ON public.webhook_events USING btree (endpoint, due_at) WHERE ((state = 'pending'::text) AND (replayed_from IS NULL));
CREATE INDEX webhook_events_lease ON public.webhook_events USING btree (lease) WHERE (lease IS NOT NULL);
CREATE INDEX webhook_events_replayed ON public.webhook_events USING btree (endpoint, due_at) WHERE ((state = 'pending'::text) AND (replayed_from IS NOT NULL));
CREATE INDEX webhook_events_subject ON public.webhook_events USING btree (subject) WHERE (data IS NOT NULL);
CREATE INDEX webhook_events_unaccepted ON public.webhook_events USING btree (id) WHERE ((attempts > 0) AND (state <> 'delivered'::text));
CREATE INDEX webhook_events_user_id ON public.webhook_events USING btree (user_id) WHERE (user_id IS NOT NULL);
CREATE TRIGGER accounts_changed AFTER UPDATE OF state ON public.accounts FOR EACH ROW WHEN (((new.state <> old.state) AND (new.state = 'login_required'::text))) EXECUTE FUNCTION public.record_account();
CREATE TRIGGER devices_added AFTER INSERT ON public.devices REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.limit_added_devices();
CREATE TRIGGER devices_deregistered AFTER DELETE ON public.devices FOR EACH ROW WHEN (old.withdrawn) EXECUTE FUNCTION public.record_former_device();
CREATE TRIGGER devices_returned AFTER UPDATE OF withdrawn ON public.devices FOR EACH ROW WHEN ((old.withdrawn AND (NOT new.withdrawn))) EXECUTE FUNCTION public.limit_returned_device();
CREATE TRIGGER devices_withdrawn AFTER UPDATE OF withdrawn ON public.devices FOR EACH ROW WHEN ((new.withdrawn AND (NOT old.withdrawn))) EXECUTE FUNCTION public.record_withdrawal();
CREATE TRIGGER message_quotas_released AFTER UPDATE OF used ON public.message_quotas FOR EACH ROW WHEN (((new.used = 0) AND (new.quota <> 'app'::text))) EXECUTE FUNCTION public.delete_unused_quota();
CREATE TRIGGER messages_changed AFTER UPDATE OF state ON public.messages FOR EACH ROW WHEN (((new.state <> old.state) AND (new.state = ANY (ARRAY['done'::text, 'canceled'::text, 'expired'::text])))) EXECUTE FUNCTION public.record_message();
CREATE TRIGGER pushes_changed AFTER UPDATE OF state ON public.pushes FOR EACH ROW WHEN (((new.state <> old.state) AND (new.state = ANY (ARRAY['proposed'::text, 'done'::text, 'halted'::text, 'expired'::text, 'canceled'::text])))) EXECUTE FUNCTION public.record_push();
CREATE TRIGGER pushes_created AFTER INSERT ON public.pushes FOR EACH ROW WHEN ((new.state = 'proposed'::text)) EXECUTE FUNCTION public.record_push();
CREATE TRIGGER sender_changed AFTER UPDATE OF stopped_at, reason, stopped_by, halted_at, halt_reason, commits_lost_at ON public.sender FOR EACH ROW WHEN ((new.* IS DISTINCT FROM old.*)) EXECUTE FUNCTION public.record_sender();
ALTER TABLE ONLY public.customer_upload_users
    ADD CONSTRAINT customer_upload_users_upload_id_number_fkey FOREIGN KEY (upload_id, number) REFERENCES public.customer_upload_parts(upload_id, number) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.message_receivers
    ADD CONSTRAINT message_receivers_message_id_fkey FOREIGN KEY (message_id) REFERENCES public.messages(id) ON DELETE CASCADE;
