-- The users whom a push did not reach. Those whom its preparation skips are stored here; those of batches that failed or were never sent
-- are in the batches. docs/delivery.md has the causes.

-- The users whom a step of a push's preparation skipped, one row for each cause. Written by the statement that stores the part of
-- that step and moves the push's cursor. A push of a single batch has none: its skipped users are those of `pushes.user_ids` who are
-- not in the batch.
CREATE TABLE push_skipped (
    push_id             uuid        NOT NULL,
    -- Why they were skipped. A user with several causes has the first of these.
    cause               text        NOT NULL CHECK (cause IN ('excluded', 'without_consent', 'no_device')),
    -- `pushes.prepared_up_to` after the step.
    position            bigint      NOT NULL,
    -- The users' ids, in the form of `push_parts.ids`.
    ids                 bytea       NOT NULL,
    -- The number of bytes of the largest id.
    id_bytes            integer     NOT NULL CHECK (id_bytes BETWEEN 1 AND 8),

    PRIMARY KEY (push_id, cause, position),
    CONSTRAINT push_skipped_ids_check CHECK (octet_length(ids) > 0 AND octet_length(ids) % id_bytes = 0)
) WITH (toast_tuple_target = 128);

-- Written once. Uncompressed, so that an export can read ranges of it.
ALTER TABLE push_skipped ALTER COLUMN ids SET STORAGE EXTERNAL, ALTER COLUMN ids SET STATISTICS 0;

ALTER TABLE pushes
    -- The users in `push_skipped`, by cause.
    ADD COLUMN users_no_device bigint NOT NULL DEFAULT 0,
    -- As `users_no_device`.
    ADD COLUMN users_excluded bigint NOT NULL DEFAULT 0,
    -- As `users_no_device`.
    ADD COLUMN users_without_consent bigint NOT NULL DEFAULT 0,
    -- The cursor up to which `push_skipped` has all users. If it is not `prepared_up_to`, a server of version 0.1.0, which
    -- stores none, has prepared a step.
    ADD COLUMN skipped_up_to bigint NOT NULL DEFAULT 0,
    -- Whether it is advertising that was canceled or expired outside the hours for advertising.
    ADD COLUMN ended_at_night boolean NOT NULL DEFAULT false;
