-- What Kakao's servers report: callbacks about shares, and events of users. Each is inserted once, whatever it contains, by the key
-- under which Kakao sends it again.

-- Callbacks about Kakao Link messages that reached a chat room. They arrive by the thousand a second.
CREATE TABLE link_callbacks (
    -- `X-Kakao-Resource-ID`, which identifies a callback; its hash if it is too long; the hash of a malformed call without it;
    -- the row's own id for others without it.
    key                 text        PRIMARY KEY,
    -- UUID version 7. It sorts by the time of receipt, so that lists are paged by it.
    id                  uuid        NOT NULL,
    -- NULL, like the next two, if it is not known from a malformed call.
    chat_type           text,
    hash_chat_id        text,
    template_id         bigint,
    -- The custom arguments, each a string. They come from a phone and must not be trusted.
    args                jsonb       NOT NULL,
    received_at         timestamptz NOT NULL,
    -- Long after `received_at` for a callback that waited in the journal during an outage of the database.
    stored_at           timestamptz NOT NULL DEFAULT now(),
    -- The share that the arguments are signed for; NULL for a callback without a signature.
    share_id            uuid,
    -- The outcome of the check of the signature: `valid`, `expired` or `invalid`; NULL for a callback without one.
    signature           text,
    -- The first 8 KiB of what Kakao sent, if a part of it was not understood: the callback is malformed. They come from a phone.
    raw                 text
);

CREATE INDEX link_callbacks_id ON link_callbacks (id);
-- Rows lie in the order in which they were stored, so a summary of each range of pages is enough, and inserts cost
-- nothing more.
CREATE INDEX link_callbacks_stored_at ON link_callbacks USING brin (stored_at);
CREATE INDEX link_callbacks_share ON link_callbacks (share_id, id) WHERE share_id IS NOT NULL;

-- Events that Kakao reports about its users, such as an unlink of the app.
CREATE TABLE events (
    -- The type of event and Kakao's id of the notice, or a hash in its place; the row's own id for a notice without one.
    key                 text        PRIMARY KEY,
    -- UUID version 7. It sorts by the time of receipt, so that lists are paged by it.
    id                  uuid        NOT NULL,
    type                text        NOT NULL,
    -- NULL for an event that names no user.
    user_id             bigint,
    -- The reason as Kakao names it. Kakao may add others.
    referrer_type       text,
    -- The other members of the notice.
    payload             jsonb       NOT NULL,
    -- The first 8 KiB of what Kakao sent, if a part of it was not understood: the event is malformed.
    raw                 text,
    received_at         timestamptz NOT NULL,
    -- The time of receipt by the database's clock, like the times of devices.
    happened_at         timestamptz NOT NULL,
    -- Long after `received_at` for a notice that waited in the journal during an outage of the database.
    stored_at           timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX events_id ON events (id);
CREATE INDEX events_user_id ON events (user_id);
-- For the erasure of a user, whose id may be in any malformed event.
CREATE INDEX events_malformed ON events (id) WHERE raw IS NOT NULL;
-- Lists the events of one type: a few rare ones among very many.
CREATE INDEX events_type ON events (type, id);
-- Rows lie in the order in which they were stored, so a summary of each range of pages is enough, and inserts cost
-- nothing more.
CREATE INDEX events_stored_at ON events USING brin (stored_at);
