-- Returns whether an event means that its user has left the app: the types for which
-- `KakaoEvent.userEventKind` is `left`.
CREATE OR REPLACE FUNCTION is_departure(event_type text) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path FROM CURRENT
AS $$
    SELECT event_type IN (
        'unlink',
        'https://schemas.openid.net/secevent/oauth/event-type/user-unlinked',
        'https://schemas.openid.net/secevent/risc/event-type/account-purged',
        'https://schemas.openid.net/secevent/risc/event-type/account-disabled'
    )
$$;
