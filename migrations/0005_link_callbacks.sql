-- Kakao Link messages that reached a chat room, as Kakao told us.

CREATE TABLE link_callbacks (
    -- `X-Kakao-Resource-ID`, by which Kakao tells one callback from another; the row's own id when Kakao gave none.
    key                 text        PRIMARY KEY,
    -- UUID version 7: sorts by the time of receipt, so that lists are paged by it.
    id                  uuid        NOT NULL,
    chat_type           text        NOT NULL,
    hash_chat_id        text        NOT NULL,
    template_id         bigint,
    -- The custom arguments, each a string. A phone wrote them: data, never trusted.
    args                jsonb       NOT NULL,
    received_at         timestamptz NOT NULL,
    -- Long after it was received when the callback waited in a journal while the database was away.
    stored_at           timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX link_callbacks_id ON link_callbacks (id);
-- Rows lie in the order in which they are stored, so that a summary of each range of pages is enough, and an insert costs nothing more.
CREATE INDEX link_callbacks_stored_at ON link_callbacks USING brin (stored_at);
