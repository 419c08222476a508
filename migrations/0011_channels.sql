-- KakaoTalk Channel: who has added or blocked the company's channels, as Kakao reports it.

-- The latest relation of each person to each channel.
CREATE TABLE channel_relations (
    -- What `id` is: `app_user_id`, the id of a user of the app, or `open_id`, the id of a person who has not agreed to tell the app.
    -- An `open_id` is never compared with the id of a user, even if it is all digits.
    id_type             text        NOT NULL CHECK (id_type IN ('app_user_id', 'open_id')),
    id                  text        COLLATE "C" NOT NULL,
    -- As in the channel's address: `_ZeUTxl`.
    channel_public_id   text        COLLATE "C" NOT NULL,
    -- The search id, such as `@sample`; NULL if Kakao has not sent it.
    channel_uuid        text,
    relation            text        NOT NULL CHECK (relation IN ('ADDED', 'BLOCKED')),
    -- When the relation changed, by Kakao's clock: the only order of the changes, which may arrive in another one.
    updated_at          timestamptz NOT NULL,
    stored_at           timestamptz NOT NULL DEFAULT now(),

    PRIMARY KEY (id_type, id, channel_public_id)
);

-- Finds the rows that are deleted after a time.
CREATE INDEX channel_relations_deletable ON channel_relations (stored_at) WHERE id_type = 'open_id' OR relation = 'BLOCKED';

-- Uploads of users to customer files of channels, which the server sends to Kakao in parts.
CREATE TABLE customer_uploads (
    id                  uuid        PRIMARY KEY,
    channel_public_id   text        NOT NULL,
    -- Kakao's id of the file.
    file_id             bigint      NOT NULL,
    -- How the users are named: by user ids or by phone numbers.
    user_type           text        NOT NULL CHECK (user_type IN ('app', 'phone')),
    -- Whether the users are added to the file or deleted from it.
    action              text        NOT NULL CHECK (action IN ('update', 'delete')),
    state               text        NOT NULL CHECK (state IN ('sending', 'done', 'failed', 'canceled')),
    -- The users of the upload.
    users               bigint      NOT NULL CHECK (users > 0),
    -- The users whose parts Kakao has accepted, and those of them that count as success: for additions, friends of the channel.
    users_sent          bigint      NOT NULL DEFAULT 0,
    users_accepted      bigint      NOT NULL DEFAULT 0,
    -- Why it has failed, or why the next part waits; NULL for no reason.
    reason              text,
    -- The name of the operator key that created it.
    created_by          text,
    created_at          timestamptz NOT NULL DEFAULT now(),
    finished_at         timestamptz
);

CREATE INDEX customer_uploads_finished ON customer_uploads (finished_at) WHERE finished_at IS NOT NULL;
-- Finds the uploads to a file that come before another one.
CREATE INDEX customer_uploads_sending ON customer_uploads (channel_public_id, file_id, id) WHERE state = 'sending';

-- The parts that Kakao has not accepted yet, which are sent in their order. A part goes once Kakao has accepted it, or its upload has
-- ended.
CREATE TABLE customer_upload_parts (
    upload_id           uuid        NOT NULL,
    number              integer     NOT NULL,
    -- When it can be claimed; NULL while a server sends it.
    due_at              timestamptz DEFAULT now(),
    -- The attempts that have failed.
    attempts            integer     NOT NULL DEFAULT 0,
    -- The lease of the server that is sending.
    lease               uuid,
    -- The number of times that it was claimed, which tells the results of different claims apart.
    claims              integer     NOT NULL DEFAULT 0,

    PRIMARY KEY (upload_id, number)
);

CREATE INDEX customer_upload_parts_due ON customer_upload_parts (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX customer_upload_parts_leased ON customer_upload_parts (lease) WHERE lease IS NOT NULL;

-- The users of the parts: apart from the columns that each attempt changes, which would index them again.
CREATE TABLE customer_upload_users (
    upload_id           uuid        NOT NULL,
    number              integer     NOT NULL,
    -- As Kakao gets them: at most 2,000 objects with `id` and `field`, without those of users who were erased since.
    users               jsonb       NOT NULL,
    -- The number of users when they were uploaded.
    user_count          integer     NOT NULL,
    -- The ids of users of the app, by which an erasure finds them; NULL for phone numbers.
    user_ids            bigint[],

    PRIMARY KEY (upload_id, number),
    -- Checked at the commit, since an upload stores its users first.
    FOREIGN KEY (upload_id, number) REFERENCES customer_upload_parts ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);

CREATE INDEX customer_upload_users_ids ON customer_upload_users USING gin (user_ids);
