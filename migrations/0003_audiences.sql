-- Audiences: users that an operator has uploaded under a name.

CREATE TABLE audiences (
    -- Sorted by its bytes, so that pages of a list are the same whatever the database's language.
    name                text        COLLATE "C" PRIMARY KEY,
    -- The parts that hold its users now. An upload writes parts under an id of its own and changes this in the same
    -- transaction, so that everybody else sees the old users or the new ones. Whoever pins them to a push reads this row
    -- FOR SHARE: until that transaction has ended it cannot be changed, and what it named not be taken for unused.
    parts_id            uuid        NOT NULL,
    users               bigint      NOT NULL CHECK (users > 0),
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL
);

CREATE TABLE audience_parts (
    parts_id            uuid        NOT NULL,
    -- From 1. Over all parts the users are in ascending order, and none is there twice.
    number              integer     NOT NULL CHECK (number > 0),
    user_ids            bigint[]    NOT NULL CHECK (cardinality(user_ids) BETWEEN 1 AND 1000),

    PRIMARY KEY (parts_id, number)
);

-- Nobody searches these lists, and to count what is in them takes ANALYZE seconds.
ALTER TABLE audience_parts ALTER COLUMN user_ids SET STATISTICS 0;
