-- The devices of the service's users, and their changes that are pending at Kakao. docs/architecture.md has the states.

CREATE TABLE devices (
    -- The service's own id of the user, from 1 to 2^63-1. Kakao calls it `uuid`.
    user_id             bigint      NOT NULL CHECK (user_id > 0),
    device_id           text        NOT NULL,
    -- Version 1 of Kakao's Push API calls `fcm` `gcm`.
    push_type           text        NOT NULL CHECK (push_type IN ('apns', 'fcm')),
    push_token          text        NOT NULL,
    locale              text,
    timezone            text,
    app_version         text,
    tags                text[]      NOT NULL DEFAULT '{}',
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),

    -- Whether the app or the server has withdrawn the device. The row is deleted once Kakao has deregistered the
    -- device.
    withdrawn           boolean     NOT NULL DEFAULT false,
    -- The number of changes of the device.
    revision            bigint      NOT NULL DEFAULT 1,
    -- The last change that Kakao has confirmed. If it is lower than `revision`, a change is pending.
    kakao_revision      bigint      NOT NULL DEFAULT 0,
    -- The lease of the request or server that is calling Kakao about the device until `lease_ends_at`, so that these
    -- calls never overlap.
    lease               uuid,
    lease_ends_at       timestamptz,
    -- The failed calls to Kakao since the last change.
    attempts            integer     NOT NULL DEFAULT 0,
    -- The time of the next call to Kakao; `infinity` for an imported device whose call is not scheduled yet.
    next_attempt_at     timestamptz NOT NULL DEFAULT now(),

    -- The time at which Kakao deletes the token unless it is renewed; NULL for never, and before Kakao has confirmed
    -- the device.
    expires_at          timestamptz,
    -- The time at which the server renews the token; NULL for never, and while a renewal is pending.
    renew_at            timestamptz,
    -- The revision with which the server, and not the app, renews the token.
    renewal_revision    bigint,

    -- The number of failures of the token that Kakao has reported since its registration.
    failures            integer     NOT NULL DEFAULT 0,
    last_failure_at     timestamptz,
    -- The times of the failures that `failures` counts, to recognize a duplicate report. Meaningless while `failures`
    -- is 0. Never has more elements than the number of failures after which a device is withdrawn.
    failure_dates       timestamptz[],

    -- The time at which the access token of the latest registration was verified; NULL for an operator's registration.
    authorized_at       timestamptz,
    -- Why the device was withdrawn (docs/webhooks.md); without meaning unless it is.
    withdrawal_cause    text,
    -- The name of the operator key that last registered or deregistered the device; NULL for its app.
    changed_by          text
) WITH (
    -- Apps repeat their registration at each start. Such an update changes no indexed column, and if the page has room,
    -- it updates no index at all (HOT).
    fillfactor = 85
);

-- `withdrawn` is included so that preparing a push to everyone reads only the index.
CREATE UNIQUE INDEX devices_pkey ON devices (user_id, device_id, push_type) INCLUDE (withdrawn);
ALTER TABLE devices ADD PRIMARY KEY USING INDEX devices_pkey;

-- Finds the devices with a token. It is a hash index because tokens are only compared for equality, and may be long.
CREATE INDEX devices_push_token ON devices USING hash (push_token);

-- The devices with a pending change.
CREATE INDEX devices_unsettled ON devices (next_attempt_at) WHERE kakao_revision < revision;

CREATE INDEX devices_renew_at ON devices (renew_at) WHERE renew_at IS NOT NULL;

-- The latest withdrawals, after Kakao has deregistered the devices: a server that has registered one of them does not take it for lost
-- when PostgreSQL has lost commits (docs/devices.md). Deleted after a day.
CREATE TABLE former_devices (
    user_id             bigint      NOT NULL,
    -- Empty, as `push_type`, for all devices of a user who has left the app.
    device_id           text        NOT NULL,
    push_type           text        NOT NULL,
    withdrawn_at        timestamptz NOT NULL,

    PRIMARY KEY (user_id, device_id, push_type)
);

CREATE INDEX former_devices_withdrawn_at ON former_devices (withdrawn_at);
