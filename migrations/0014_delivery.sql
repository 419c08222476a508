-- Delivery that survives lost responses, stalls and outages: docs/delivery.md.

ALTER TABLE push_batches
    -- Counts the claims of the batch. A result is stored only for the claim that it belongs to, so that storing it again after a lost
    -- response cannot touch a later claim.
    ADD COLUMN claims           integer     NOT NULL DEFAULT 0;

ALTER TABLE pushes
    -- The users sent when `probe` was set: once there are more, Kakao accepts the message and the probe is over.
    ADD COLUMN probe_sent       bigint      NOT NULL DEFAULT 0,
    -- While a retry is being prepared: the batches with numbers above `retry_position` and below `retry_end` have yet to be reset.
    ADD COLUMN retry_position   integer,
    ADD COLUMN retry_end        integer,
    ADD COLUMN retry_uncertain  boolean     NOT NULL DEFAULT false,
    -- Retention deletes its batches: from then on it cannot be retried.
    ADD COLUMN removed_at       timestamptz,
    ADD CONSTRAINT pushes_retry_check CHECK ((retry_position IS NULL) = (retry_end IS NULL));

-- The few that wait for an operator, counted for the metrics.
CREATE INDEX pushes_stopped ON pushes (state) WHERE state IN ('paused', 'halted');
