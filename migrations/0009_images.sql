-- Images for messages, by content. Kakao keeps a copy of each for 20 days; the server uploads it again when it is needed.

CREATE TABLE images (
    -- UUID version 7. It sorts by the time of the first upload, so that lists are paged by it.
    id                  uuid        PRIMARY KEY,
    sha256              bytea       NOT NULL UNIQUE CHECK (length(sha256) = 32),
    content_type        text        NOT NULL,
    -- In pixels.
    width               integer     NOT NULL,
    height              integer     NOT NULL,
    -- The length of `bytes`.
    size                bigint      NOT NULL CHECK (size > 0),
    bytes               bytea       NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    -- The address of the copy at Kakao, and when Kakao deletes it. Null until the first upload has succeeded.
    url                 text,
    expires_at          timestamptz,
    -- The lease of the server that uploads the image now. No other server uploads it before the lease ends.
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
