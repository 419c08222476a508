-- When each operator's key was last used, so that those that nobody uses can be found and revoked.

ALTER TABLE operator_keys
    -- To about a minute; NULL for never.
    ADD COLUMN last_used_at timestamptz;
