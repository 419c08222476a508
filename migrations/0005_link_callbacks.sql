-- Kakao's callbacks about Kakao Link messages that reached a chat room.

CREATE TABLE link_callbacks (
    -- `X-Kakao-Resource-ID`, which identifies a callback; the row's own id if Kakao sent none.
    key                 text        PRIMARY KEY,
    -- UUID version 7. It sorts by the time of receipt, so that lists are paged by it.
    id                  uuid        NOT NULL,
    chat_type           text        NOT NULL,
    hash_chat_id        text        NOT NULL,
    template_id         bigint,
    -- The custom arguments, each a string. They come from a phone and must not be trusted.
    args                jsonb       NOT NULL,
    received_at         timestamptz NOT NULL,
    -- Long after `received_at` for a callback that waited in the journal during an outage of the database.
    stored_at           timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX link_callbacks_id ON link_callbacks (id);
-- Rows lie in the order in which they were stored, so a summary of each range of pages is enough, and inserts cost
-- nothing more.
CREATE INDEX link_callbacks_stored_at ON link_callbacks USING brin (stored_at);
