-- What is sent at its first attempt, as nearly everything is, needs no row a batch: a row here holds what a server has claimed at once.

CREATE TABLE push_claims (
    push_id             uuid        NOT NULL,
    -- Of its first batch.
    number              integer     NOT NULL,
    -- Whole batches, but for the last one of a push's part.
    batch_users         integer     NOT NULL CHECK (batch_users BETWEEN 1 AND 100),
    users               integer     NOT NULL CHECK (users > 0),
    -- NULL once nothing of it is under way.
    lease               uuid,
    -- A bit a batch: 1 when it has been sent, or has got a row of its own in push_batches.
    settled             bit varying NOT NULL,
    -- When the last one that has been sent was.
    finished_at         timestamptz,

    PRIMARY KEY (push_id, number),
    CHECK (users BETWEEN batch_users * (length(settled) - 1) + 1 AND batch_users * length(settled))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- What is under way, of a server that may have died.
CREATE INDEX push_claims_open ON push_claims (lease) WHERE lease IS NOT NULL;
