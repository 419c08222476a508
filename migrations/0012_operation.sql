-- What operators control and see of all servers together.

-- One row: whether pushes and KakaoTalk messages are sent. The statements that claim work lock it (`FOR SHARE`), and claim
-- nothing while it is stopped. A stop therefore waits for the claims in flight, and nothing is claimed after its commit,
-- even by a server that has not heard of it.
CREATE TABLE sender (
    is_only             boolean     PRIMARY KEY DEFAULT true CHECK (is_only),
    -- NULL while it runs.
    stopped_at          timestamptz,
    -- Why it was stopped, and the name of the operator key that stopped it.
    reason              text,
    stopped_by          text,
    CHECK ((stopped_at IS NULL) = (reason IS NULL) AND (stopped_at IS NULL) = (stopped_by IS NULL))
);

INSERT INTO sender DEFAULT VALUES;

-- The server that holds a lease: its machine, its version, and when it started.
ALTER TABLE work_leases
    ADD COLUMN host         text        NOT NULL DEFAULT '',
    ADD COLUMN version      text        NOT NULL DEFAULT '',
    ADD COLUMN started_at   timestamptz NOT NULL DEFAULT now();

-- The calls to Kakao in a month, by the calendar of Seoul. Kakao limits those of all APIs together.
CREATE TABLE kakao_calls (
    month               date        PRIMARY KEY,
    calls               bigint      NOT NULL
);
