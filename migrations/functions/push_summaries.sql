-- Shows pushes with their counts. `state` is as stored: `PushSummary` adds what depends on the hours for advertising.
CREATE OR REPLACE VIEW push_summaries AS
SELECT push.id, push.name, push.created_by, push.created_by_key, push.kind, push.state, push.reason, push.audience, push.to_testers,
    push.counted_users,
    push_awaits_approval(
        push.state, push.created_at, push.expires_at, push.prepared_at, push.users - push.users_skipped, push.allowed_users
    ) AS awaits_approval,
    push.approved_by, push.approved_at, push.stopped_by,
    message_tested_before(push.message, push.message_version, COALESCE(push.started_at, push.finished_at)) AS last_tested_at,
    push.exclusion,
    push_waits_for(push.excluded_pushes, push.prepared_at, push.finished_at) AS waits_for,
    push.delivery, push.users_per_second, push.send_at, push.expires_at, push.created_at, push.started_at, push.finished_at,
    push.first_words,
    encode(sha256(convert_to(push.message, 'UTF8')), 'hex') AS message_sha256,
    push.warnings,
    push.users, counts.users_sent, counts.users_failed, counts.users_uncertain, push.users_skipped, counts.users_may_repeat,
    push.next_number::bigint - 1 AS batches,
    counts.batches_sent, counts.batches_failed, counts.batches_uncertain,
    (SELECT COALESCE(sum(opens.users), 0)::bigint FROM push_open_counts AS opens WHERE opens.push_id = push.id) AS users_opened,
    -- The users whom it did not reach. A push of a single batch has no steps.
    CASE push.prepared_up_to WHEN 0 THEN push.users_skipped ELSE push.users_no_device END AS users_no_device,
    push.users_excluded, push.users_without_consent,
    CASE
        WHEN push.state IN ('canceled', 'expired')
            THEN push.users - push.users_skipped - counts.users_sent - counts.users_failed - counts.users_uncertain - ended.users_unanswered
        ELSE 0
    END AS users_unsent,
    CASE
        -- Only a rejection has a reason.
        WHEN push.state = 'canceled' AND push.reason IS NOT NULL THEN 'rejected'
        WHEN push.state IN ('canceled', 'expired') THEN CASE WHEN push.ended_at_night THEN 'night' ELSE push.state END
    END AS unsent_cause,
    push.prepared_at IS NOT NULL AS is_prepared,
    ended.users_unanswered
FROM pushes AS push
CROSS JOIN LATERAL (
    SELECT COALESCE(sum(users) FILTER (WHERE state = 'sent'), 0)::bigint AS users_sent,
        COALESCE(sum(users) FILTER (WHERE state = 'failed'), 0)::bigint AS users_failed,
        COALESCE(sum(users) FILTER (WHERE state = 'uncertain'), 0)::bigint AS users_uncertain,
        COALESCE(sum(may_repeat), 0)::bigint AS users_may_repeat,
        COALESCE(sum(batches) FILTER (WHERE state = 'sent'), 0)::bigint AS batches_sent,
        COALESCE(sum(batches) FILTER (WHERE state = 'failed'), 0)::bigint AS batches_failed,
        COALESCE(sum(batches) FILTER (WHERE state = 'uncertain'), 0)::bigint AS batches_uncertain
    FROM push_counts
    WHERE push_id = push.id
) AS counts
CROSS JOIN LATERAL (
    -- The users of batches that were to be sent again when the push ended, although they may have been reached.
    SELECT COALESCE(sum(users), 0)::bigint AS users_unanswered
    FROM push_batches
    WHERE push_id = push.id
        AND state = 'waiting'
        AND may_repeat
        AND push.state IN ('canceled', 'expired')
) AS ended;
