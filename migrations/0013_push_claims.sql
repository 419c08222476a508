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

-- Users' ids seldom take eight bytes: those of a part take as many as the largest of them does. A server of before must not read them as
-- eight: it does not find them.
ALTER TABLE push_parts RENAME COLUMN user_ids TO ids;
ALTER TABLE push_parts
    ADD COLUMN id_bytes integer NOT NULL DEFAULT 8 CHECK (id_bytes BETWEEN 1 AND 8),
    DROP CONSTRAINT push_parts_check1,
    ADD CONSTRAINT push_parts_ids_check CHECK (
        octet_length(ids) BETWEEN id_bytes * ((batches - 1) * batch_users + 1) AND id_bytes * batches * batch_users
    );

CREATE OR REPLACE FUNCTION push_part_users(push uuid, batch integer) RETURNS bigint[]
LANGUAGE sql STABLE
AS $$
    SELECT ARRAY(
        SELECT ('x' || lpad(encode(substring(own FROM id_bytes * place + 1 FOR id_bytes), 'hex'), 16, '0'))::bit(64)::bigint
        FROM generate_series(0, octet_length(own) / id_bytes - 1) AS place
        ORDER BY place
    )
    FROM (
        SELECT id_bytes, substring(ids FROM id_bytes * batch_users * (batch - number) + 1 FOR id_bytes * batch_users) AS own
        FROM push_parts
        WHERE push_id = push
            AND number <= batch
        ORDER BY number DESC
        LIMIT 1
    ) AS part
$$;
