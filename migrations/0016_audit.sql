-- Who did what: ids of operator keys.

-- Names keys in records. A name may belong to several keys, and the SHA-256 is not shown.
ALTER TABLE operator_keys ADD COLUMN id uuid NOT NULL DEFAULT gen_random_uuid();

CREATE UNIQUE INDEX operator_keys_id ON operator_keys (id);
