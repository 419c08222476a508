-- What Kakao tells of its users: that one has unlinked the app, and whatever else it may come to tell.

CREATE TABLE events (
    -- What Kakao tells one notice from another by, behind the kind of event; the row's own id when Kakao gave nothing.
    key                 text        PRIMARY KEY,
    -- UUID version 7: sorts by the time of receipt, so that lists are paged by it.
    id                  uuid        NOT NULL,
    type                text        NOT NULL,
    -- Whom it concerns; NULL when it does not say.
    user_id             bigint,
    -- Why, in Kakao's word. The list of them grows.
    referrer_type       text,
    -- Whatever else came with it.
    payload             jsonb       NOT NULL,
    received_at         timestamptz NOT NULL
);

CREATE INDEX events_id ON events (id);
CREATE INDEX events_user_id ON events (user_id);
