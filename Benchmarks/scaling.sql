-- Rows of the tables that grow, :rows of each, as the server writes them. Run by Benchmarks/scaling.sh in a database without them.

-- Kakao's report that a shared message has arrived in a chat room, with the arguments of a signed share.
INSERT INTO link_callbacks (key, id, chat_type, hash_chat_id, template_id, args, received_at, stored_at, share_id, signature)
SELECT md5(n::text) || md5(n::text || 'x'), gen_random_uuid(), 'MultiChat', left(md5((n % 100000)::text), 24), 3135,
    jsonb_build_object('product_id', n::text, 'kps', left(md5(n::text) || md5(n::text), 60)), at, at, gen_random_uuid(), 'valid'
FROM generate_series(1, :rows) AS n, LATERAL (SELECT now() - n * interval '1 second' AS at) AS received;

-- A user who has left the app.
INSERT INTO events (key, id, type, user_id, referrer_type, payload, received_at, happened_at, stored_at)
SELECT 'unlink:' || md5(n::text), gen_random_uuid(), 'unlink', n, 'ACCOUNT_DELETE', '{}', at, at, at
FROM generate_series(1, :rows) AS n, LATERAL (SELECT now() - n * interval '1 second' AS at) AS received;

INSERT INTO shares (id, campaign, template_id, args, links, created_at, expires_at)
SELECT gen_random_uuid(), 'autumn', 3135, jsonb_build_object('product_id', n::text),
    ARRAY['https://shop.example.com/products/' || n, 'https://shop.example.com/'], now(), now() + interval '30 days'
FROM generate_series(1, :rows) AS n;

-- The landings of a share, and its arrivals in chat rooms.
INSERT INTO share_counts (share_id, kind, name, count)
SELECT id, kind, name, 3
FROM shares
CROSS JOIN (VALUES ('landing', ''), ('arrival', 'MultiChat')) AS counted (kind, name);

INSERT INTO share_visits (share_id, visitor, counted_at)
SELECT gen_random_uuid(), sha256(n::text::bytea), now()
FROM generate_series(1, :rows) AS n;

-- Messages to ten friends each.
INSERT INTO messages (
    id, sender, addressing, state, template_object, delivery, when_over_quota, created_at, finished_at, created_by
)
SELECT gen_random_uuid(), n, 'friends', 'done', '{"object_type":"text","text":"' || repeat('가', 100) || '"}', 'at_least_once', 'wait',
    now(), now(), 'shop'
FROM generate_series(1, :rows / 10) AS n;

INSERT INTO message_receivers (message_id, position, user_id, uuid, state, attempts, claims, quota_day, finished_at)
SELECT id, position, sender + position, md5(sender::text || position) || 'abcdef', 'sent', 1, 1, current_date, now()
FROM messages
CROSS JOIN generate_series(0, 9) AS position;

-- The delivered webhooks of the callbacks, in the order of their ids. Those of objects that change also have the object.
INSERT INTO webhook_events (id, endpoint, type, happened_at, stored_at, subject, state, due_at, claims, last_status)
SELECT overlay(gen_random_uuid()::text PLACING substr(uuid_v7_floor(stored_at)::text, 1, 15) FROM 1)::uuid, 'default', 'link.callback.received',
    received_at, stored_at, 'callbacks/' || id, 'delivered', stored_at, 1, 200
FROM link_callbacks
ORDER BY stored_at;

INSERT INTO audit_records (id, at, key_id, key_name, address, operation, object, user_id, reason, request_id)
SELECT gen_random_uuid(), now(), gen_random_uuid(), 'shop', '192.0.2.1', 'listTokens', NULL, n, NULL, left(md5(n::text), 16)
FROM generate_series(1, :rows) AS n;

INSERT INTO accounts (
    user_id, state, app_key, refreshed_by, scopes, tokens, key_id, refresh_token_sha256, access_token_ends_at, refresh_at,
    refresh_token_ends_at, renew_at
)
SELECT n, 'linked', 'rest', 'server', '{account_email,friends,profile_nickname,talk_message}', sha512(n::text::bytea) || sha512('b' || n::text::bytea),
    'a3f5c1d2', sha256(n::text::bytea), now() + interval '6 hours', now() + interval '5 hours', now() + interval '60 days',
    now() + interval '30 days'
FROM generate_series(1, :rows) AS n;

VACUUM ANALYZE;
