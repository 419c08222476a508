-- The leases under which servers claim the work of a queue, such as the batches of pushes. A server renews its lease while
-- it runs. Other servers reclaim its work after the lease has expired.
CREATE TABLE work_leases (
    id                  uuid        PRIMARY KEY,
    -- `pushes` or `messages`.
    queue               text        NOT NULL,
    ends_at             timestamptz NOT NULL
);
