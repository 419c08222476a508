-- Shows accounts without their tokens, which the server keeps for itself.
CREATE OR REPLACE VIEW account_summaries AS
SELECT user_id, state, reason, app_key, refreshed_by, scopes, access_token_ends_at, refresh_token_ends_at, created_at, linked_at,
    refreshed_at
FROM accounts;
