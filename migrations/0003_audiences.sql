-- Audiences: users that an operator has uploaded under a name.

CREATE TABLE audiences (
    -- Sorted by bytes, so that the pages of a list do not depend on the database's locale.
    name                text        COLLATE "C" PRIMARY KEY,
    -- The parts that hold its current users. An upload writes parts under a new id and changes this column in the same
    -- transaction, so that other transactions see either the old users or the new ones. The statement that creates a
    -- push reads this row FOR SHARE. Until its transaction ends, the row cannot change, and its parts cannot be deleted
    -- as unused.
    parts_id            uuid        NOT NULL,
    users               bigint      NOT NULL CHECK (users > 0),
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL
);

CREATE TABLE audience_parts (
    parts_id            uuid        NOT NULL,
    -- From 1. The users of all parts together are in ascending order, without duplicates.
    number              integer     NOT NULL CHECK (number > 0),
    user_ids            bigint[]    NOT NULL CHECK (cardinality(user_ids) BETWEEN 1 AND 1000),

    PRIMARY KEY (parts_id, number)
);

-- No query searches these lists, and analyzing their elements takes ANALYZE seconds.
ALTER TABLE audience_parts ALTER COLUMN user_ids SET STATISTICS 0;
