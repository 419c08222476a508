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
    received_at         timestamptz NOT NULL
);

CREATE INDEX link_callbacks_id ON link_callbacks (id);
