-- When tokens are registered again before Kakao drops them.

ALTER TABLE devices
    -- When the server registers the token again by itself; NULL for never, and while it is being done.
    ADD COLUMN renew_at         timestamptz,
    -- The revision that was asked for by the server itself, to renew the token, and not by the app.
    ADD COLUMN renewal_revision bigint;

-- Seven days before, as the setting was until it was used, and up to a day earlier, so that they do not all come at once.
UPDATE devices
SET renew_at = expires_at - interval '7 days' - random() * interval '1 day'
WHERE expires_at IS NOT NULL
    AND NOT withdrawn;

CREATE INDEX devices_renew_at ON devices (renew_at) WHERE renew_at IS NOT NULL;
