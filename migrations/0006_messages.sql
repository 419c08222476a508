-- KakaoTalk messages that operators send in the name of users. Each receiver has a state of its own, since Kakao reaches
-- some receivers of a request and not others. docs/messages.md has the states.

CREATE TABLE messages (
    id                  uuid        PRIMARY KEY,
    -- The user in whose name it is sent.
    sender              bigint      NOT NULL,
    -- How the request named the receivers: the sender (`me`), `friends` by uuid, or `users` by id.
    addressing          text        NOT NULL CHECK (addressing IN ('me', 'friends', 'users')),
    -- A message that has not ended is `active`; it is shown as scheduled or sending.
    state               text        NOT NULL CHECK (state IN ('active', 'done', 'canceled', 'expired')),
    -- The parameters of Kakao's call: a default template, as the operator wrote it; or a custom template; or a page that
    -- Kakao reads, with or without a custom template.
    template_object     text,
    template_id         bigint,
    template_args       text,
    request_url         text,
    delivery            text        NOT NULL CHECK (delivery IN ('at_least_once', 'at_most_once')),
    when_over_quota     text        NOT NULL CHECK (when_over_quota IN ('wait', 'fail')),
    send_at             timestamptz,
    expires_at          timestamptz,
    created_at          timestamptz NOT NULL,
    finished_at         timestamptz,
    -- When the sender's friends are to be read, because receivers have no uuid yet; NULL if there are none.
    resolve_at          timestamptz,
    -- The `Idempotency-Key` of the request, under the operator key that made it; the SHA-256 of the request, and its
    -- response.
    operator_key        bytea,
    idempotency_key     text,
    request_sha256      bytea,
    response            bytea,
    -- The name of the operator key that created the message.
    created_by          text,
    CONSTRAINT messages_content_check CHECK (num_nonnulls(template_object, COALESCE(request_url, template_id::text)) = 1)
);

CREATE UNIQUE INDEX messages_idempotency_key ON messages (operator_key, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX messages_sender ON messages (sender, id);
CREATE INDEX messages_active ON messages (send_at, id) WHERE state = 'active';
CREATE INDEX messages_expiring ON messages (expires_at) WHERE state = 'active' AND expires_at IS NOT NULL;
CREATE INDEX messages_unresolved ON messages (resolve_at) WHERE state = 'active' AND resolve_at IS NOT NULL;
CREATE INDEX messages_finished ON messages (finished_at) WHERE finished_at IS NOT NULL;

-- The receivers of messages.
CREATE TABLE message_receivers (
    message_id          uuid        NOT NULL REFERENCES messages ON DELETE CASCADE,
    -- The place in the request, from 0.
    position            integer     NOT NULL,
    -- NULL for a receiver whom the request named by uuid.
    user_id             bigint,
    -- Kakao's name of the receiver among the sender's friends. NULL for the sender, and until the friends are read.
    uuid                text,
    state               text        NOT NULL DEFAULT 'pending' CHECK (state IN (
                            'pending', 'sending', 'waiting', 'sent', 'failed', 'uncertain', 'skipped')),
    -- When the receiver can be claimed; NULL if it cannot.
    due_at              timestamptz,
    -- The number of requests to Kakao with this receiver.
    attempts            integer     NOT NULL DEFAULT 0,
    -- The number of times that the receiver was claimed, which tells the results of different claims apart.
    claims              integer     NOT NULL DEFAULT 0,
    -- The lease of the server that is sending.
    lease               uuid,
    -- Whether it is sent in a request of its own, because Kakao rejected one with several receivers.
    is_alone            boolean     NOT NULL DEFAULT false,
    -- Whether a server stopped, or a response was lost, before the receiver was sent again.
    may_repeat          boolean     NOT NULL DEFAULT false,
    -- The day whose quotas count the latest claim.
    quota_day           date,
    -- Kakao's error code, the `reason` (docs/messages.md), and Kakao's message in `kakao_message`.
    code                integer,
    reason              text,
    kakao_message       text,
    -- The scopes that the sender must agree to, of reason `missing_scope`.
    scopes              text[],
    finished_at         timestamptz,
    PRIMARY KEY (message_id, position)
);

CREATE INDEX message_receivers_due ON message_receivers (due_at, message_id, position) WHERE due_at IS NOT NULL;
CREATE INDEX message_receivers_user ON message_receivers (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX message_receivers_leased ON message_receivers (lease) WHERE lease IS NOT NULL;

-- How many messages count against Kakao's quotas of a day. A server that reserves messages locks the app's row first, so
-- that no two servers reserve at a time.
CREATE TABLE message_quotas (
    day                 date        NOT NULL,
    quota               text        NOT NULL CHECK (quota IN ('app', 'sender', 'receiver', 'pair')),
    sender              bigint      NOT NULL DEFAULT 0,
    -- The receiver's uuid; empty for the quotas that have none.
    receiver            text        NOT NULL DEFAULT '',
    used                integer     NOT NULL,
    PRIMARY KEY (day, quota, sender, receiver)
);
