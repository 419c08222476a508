-- The audit log: what operators have changed, downloaded and looked up.
CREATE TABLE audit_records (
    -- UUID version 7. It sorts by time, so that lists are paged by it.
    id                  uuid        PRIMARY KEY,
    at                  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The id of the operator key: zeros for the key in the settings, NULL for a command on the server's machine.
    key_id              uuid,
    key_name            text        NOT NULL,
    address             text,
    -- The operation as the OpenAPI document names it.
    operation           text        NOT NULL,
    -- The id or the name of what the operation was about, other than a user.
    object              text,
    user_id             bigint,
    -- The reason that the operator gave.
    reason              text,
    request_id          text
);

CREATE INDEX audit_records_user_id ON audit_records (user_id, id) WHERE user_id IS NOT NULL;
CREATE INDEX audit_records_key_id ON audit_records (key_id, id);
CREATE INDEX audit_records_operation ON audit_records (operation, id);
CREATE INDEX audit_records_object ON audit_records (object, id) WHERE object IS NOT NULL;
