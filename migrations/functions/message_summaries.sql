-- Shows messages with the number of their receivers in each state. `state` is as stored: `MessageSummary` adds what depends on the time.
CREATE OR REPLACE VIEW message_summaries AS
SELECT message.id, message.sender, message.state, message.delivery, message.when_over_quota, message.send_at, message.expires_at,
    message.created_at, message.created_by, message.finished_at, counts.receiver_states, counts.receivers
FROM messages AS message
CROSS JOIN LATERAL (
    SELECT COALESCE(array_agg(state), '{}') AS receiver_states, COALESCE(array_agg(receivers), '{}') AS receivers
    FROM (
        SELECT state, count(*) AS receivers
        FROM message_receivers
        WHERE message_id = message.id
        GROUP BY state
    ) AS counted
) AS counts;
