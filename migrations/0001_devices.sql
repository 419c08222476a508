-- The devices of the service's users, and what Kakao has yet to hear of them.

CREATE TABLE devices (
    -- The service's own number for the user, as Kakao's `uuid`: 1 to 2^63-1.
    user_id             bigint      NOT NULL CHECK (user_id > 0),
    device_id           text        NOT NULL,
    -- `fcm` also stands for what version 1 of Kakao's Push API calls `gcm`.
    push_type           text        NOT NULL CHECK (push_type IN ('apns', 'fcm')),
    push_token          text        NOT NULL,
    locale              text,
    timezone            text,
    app_version         text,
    tags                text[]      NOT NULL DEFAULT '{}',
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),

    -- Taken back by its app or by the server: kept until Kakao has heard of it, then deleted.
    withdrawn           boolean     NOT NULL DEFAULT false,
    -- Counts what was asked for this device; `kakao_revision` is the last of it that Kakao has confirmed.
    revision            bigint      NOT NULL DEFAULT 1,
    kakao_revision      bigint      NOT NULL DEFAULT 0,
    -- Whoever tells Kakao about this device holds a lease on it, so that one call follows another.
    lease               uuid,
    lease_ends_at       timestamptz,
    attempts            integer     NOT NULL DEFAULT 0,
    next_attempt_at     timestamptz NOT NULL DEFAULT now(),

    -- When Kakao drops the token unless it is registered again; NULL for never and for not yet known.
    expires_at          timestamptz,
    -- Failures of this token that Kakao has reported since it was registered.
    failures            integer     NOT NULL DEFAULT 0,
    last_failure_at     timestamptz,

    PRIMARY KEY (user_id, device_id, push_type)
);

-- Who holds a token: a phone that changes hands is found by it. Only equality is asked for, and tokens may be long.
CREATE INDEX devices_push_token ON devices USING hash (push_token);

-- What Kakao has yet to hear of.
CREATE INDEX devices_unsettled ON devices (next_attempt_at) WHERE kakao_revision < revision;
