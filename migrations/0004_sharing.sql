-- Shares of Kakao Link messages, and what they led to; images for messages.

-- A share that an app has asked for.
CREATE TABLE shares (
    -- UUID version 7. It sorts by the time of creation, so that lists are paged by it.
    id                  uuid        PRIMARY KEY,
    -- The operator's name for shares that belong together.
    campaign            text,
    -- The id of a custom template; NULL for a default template and for a web page.
    template_id         bigint,
    -- The signed custom arguments, each a string, without the signature.
    args                jsonb       NOT NULL,
    -- The addresses that the share may lead to, in the order of its template.
    links               text[]      NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    -- The end of the signature. Links work beyond it.
    expires_at          timestamptz NOT NULL
);

CREATE INDEX shares_campaign ON shares (campaign, id) WHERE campaign IS NOT NULL;

-- A conversion counts once for each share, event and user.
CREATE TABLE share_conversions (
    share_id            uuid        NOT NULL,
    event               text        NOT NULL,
    user_id             bigint      NOT NULL,
    converted_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (share_id, event, user_id)
);

CREATE INDEX share_conversions_user_id ON share_conversions (user_id);

-- The visitors of the last minutes, so that a repeated landing does not count. Not logged: after a crash of PostgreSQL the
-- table is empty, and a repetition would count at worst.
CREATE UNLOGGED TABLE share_visits (
    share_id            uuid        NOT NULL,
    -- A keyed hash of address and browser.
    visitor             bytea       NOT NULL,
    counted_at          timestamptz NOT NULL,
    PRIMARY KEY (share_id, visitor)
);

CREATE INDEX share_visits_counted_at ON share_visits (counted_at);

-- Events of shares that are not counted yet, one row each: they are appended in the transactions that store callbacks, visits
-- and conversions, which therefore never wait for a counter. `merge_share_events` counts and deletes them, within seconds.
CREATE TABLE share_events (
    id                  bigint      GENERATED ALWAYS AS IDENTITY (CACHE 100) PRIMARY KEY,
    -- `arrival`, `landing` or `conversion`.
    kind                text        NOT NULL,
    -- The chat type of an arrival, the event of a conversion; empty for a landing.
    name                text        NOT NULL,
    -- NULL for a callback that was not signed.
    share_id            uuid,
    template_id         bigint,
    -- The values of the arguments in `sharing.statistics_args`, each a text of at most 101 characters, or null.
    args                jsonb,
    happened_at         timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

-- The counted events of a share, by kind and name.
CREATE TABLE share_counts (
    share_id            uuid        NOT NULL,
    kind                text        NOT NULL,
    name                text        NOT NULL,
    count               bigint      NOT NULL,
    PRIMARY KEY (share_id, kind, name)
) WITH (fillfactor = 80);

-- The counted events of all shares by hour, once for each dimension: `all`, `campaign`, `chat_type`, `template_id`, and
-- `arg.NAME` for each argument in `sharing.statistics_args`.
CREATE TABLE share_statistics (
    dimension           text        NOT NULL,
    -- The beginning of the hour in UTC.
    hour                timestamptz NOT NULL,
    -- The value in the dimension; empty for events without one.
    value               text        NOT NULL,
    arrivals            integer     NOT NULL,
    landings            integer     NOT NULL,
    conversions         integer     NOT NULL,
    PRIMARY KEY (dimension, hour, value)
) WITH (fillfactor = 80);

-- The same by day in Seoul, so that a year of many values is read quickly. Other time zones and hours are read from
-- `share_statistics`.
CREATE TABLE share_statistics_days (
    dimension           text        NOT NULL,
    day                 date        NOT NULL,
    value               text        NOT NULL,
    arrivals            integer     NOT NULL,
    landings            integer     NOT NULL,
    conversions         integer     NOT NULL,
    PRIMARY KEY (dimension, day, value)
) WITH (fillfactor = 80);

-- Images for messages, by content. Kakao keeps a copy of each for 20 days; the server uploads it again when it is needed.
CREATE TABLE images (
    -- UUID version 7. It sorts by the time of the first upload, so that lists are paged by it.
    id                  uuid        PRIMARY KEY,
    sha256              bytea       NOT NULL UNIQUE CHECK (length(sha256) = 32),
    content_type        text        NOT NULL,
    -- `width` and `height` are in pixels.
    width               integer     NOT NULL,
    height              integer     NOT NULL,
    -- In bytes.
    size                bigint      NOT NULL CHECK (size > 0),
    bytes               bytea       NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    -- The address of the copy at Kakao, which is deleted there at `expires_at`. NULL until the first upload has succeeded.
    url                 text,
    expires_at          timestamptz,
    -- The lease of the server that uploads the image now. No other server uploads it before `lease_ends_at`.
    lease               uuid,
    lease_ends_at       timestamptz,
    CHECK ((url IS NULL) = (expires_at IS NULL)),
    CHECK ((lease IS NULL) = (lease_ends_at IS NULL))
);
-- Images are compressed already.
ALTER TABLE images ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- The one row with the size of all images. Statements that insert or delete images lock it first, so that they cannot
-- exceed the limit together.
CREATE TABLE image_storage (
    id                  boolean     PRIMARY KEY DEFAULT true CHECK (id),
    bytes               bigint      NOT NULL CHECK (bytes >= 0)
);
INSERT INTO image_storage (bytes) VALUES (0);
