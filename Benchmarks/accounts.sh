# shellcheck shell=bash
# The benchmark of scripts/bench accounts. Sourced, not executed.
# shellcheck disable=SC2154

accounts=10000
# The number of users whose tokens are relayed: few enough for the server's cache of access tokens.
callers=8192

install_requirements wrk nginx postgresql-contrib
start_push_server
kakao_port=$(free_port)
start_nginx kakao kakao PORT="$kakao_port"
wait_for kakao curl -sf "http://127.0.0.1:$kakao_port/v2/user/me"
proxy_port=$(free_port)
start_nginx proxy proxy PORT="$proxy_port" KAKAO_PORT="$kakao_port"
proxy_url=http://127.0.0.1:$proxy_port
wait_for proxy curl -sf "$proxy_url/v2/user/me"
start_server serve KAKAO_API_URL="http://127.0.0.1:$kakao_port" KAKAO_AUTH_URL="http://127.0.0.1:$kakao_port" KAKAO_APP_ID=1 \
    KAKAO_REST_API_KEY=rest-api-key-of-the-benchmark KAKAO_CLIENT_SECRET=client-secret-of-the-benchmark \
    DEVICES_REQUESTS_PER_MINUTE_PER_USER=0 DEVICES_REQUESTS_PER_MINUTE_PER_ADDRESS=0 \
    ACCOUNTS_ENCRYPTION_KEY="$(head -c 32 /dev/urandom | base64)" IDENTITY_KAKAO_ACCESS_TOKEN=true
wait_ready serve
url=$(url serve)

say "Importing the tokens of $accounts accounts"
for user in $(seq "$accounts"); do
    cat <<CURL
next
url = "$url/v1/accounts/$user/tokens"
request = PUT
header = "Authorization: Bearer $OPERATOR_KEY"
data = "access_token=user-$user&refresh_token=refresh-$user&refreshed_by=server&app_key=rest"
fail
silent
show-error
CURL
done >"$work/imports"
curl --parallel --no-progress-meter --config <(tail -n +2 "$work/imports") >/dev/null || fail "the tokens were not imported"
[ "$(psql --no-align --tuples-only "$DATABASE_URL" --command "SELECT count(*) FROM accounts WHERE state = 'linked'")" = "$accounts" ] ||
    fail "not all tokens were imported"
psql --quiet "$DATABASE_URL" --command 'VACUUM ANALYZE accounts'

seq "$accounts" >"$work/users"
seq "$callers" >"$work/callers"
random_requests "$work/users" >"$work/tokens.lua" <<LUA
function format(user)
    return wrk.format("POST", "/v1/accounts/" .. user .. "/access-token", {["Authorization"] = "Bearer $OPERATOR_KEY"})
end
LUA
random_requests "$work/callers" >"$work/me.lua" <<'LUA'
function format(user)
    return wrk.format("GET", "/v2/user/me", {["Authorization"] = "Bearer user-" .. user})
end
LUA
cat >"$work/select.sql" <<SQL
\set user_id random(1, $accounts)
SELECT user_id, state, reason, refreshed_by, scopes, tokens, key_id, access_token_ends_at
FROM accounts
WHERE user_id = :user_id;
SQL

# Checks that the work that is measured is done.
[[ $(curl -s -X POST -H "Authorization: Bearer $OPERATOR_KEY" "$url/v1/accounts/7/access-token") == *'"user-7"'* ]] ||
    fail "the server does not return the access token of a user"
for address in "$url" "$proxy_url"; do
    [[ $(curl -s -H "Authorization: Bearer user-7" "$address/v2/user/me") == '{"id":7,'* ]] || fail "$address does not relay"
done

# Warms up: the server caches the identities of the tokens.
drive unmeasured serve --script "$work/me.lua" "$url"
for round in $(seq "$rounds"); do
    drive tokens serve --script "$work/tokens.lua" "$url"
    pgbench_rate select select
    drive relay serve --script "$work/me.lua" "$url"
    drive proxy proxy --script "$work/me.lua" "$proxy_url"
    echo "round $round: access tokens $(last tokens 1)/s (pgbench $(last select 1)/s)," \
        "relayed $(last relay 1)/s (nginx $(last proxy 1)/s)"
done

cat <<TEXT

64 connections, 64 clients, $accounts accounts; medians of $rounds

| measure | target | measured |
| --- | --- | --- |
| valid access tokens against pgbench selecting the same rows | ≥ 0.8 | $(against tokens select) |
| relayed \`GET /v2/user/me\` against nginx as reverse proxy | ≥ 0.5 | $(against relay proxy) |
| access tokens, p99 | | $(median tokens 3) ms |
| relayed calls, p99 | | $(median relay 3) ms |
| CPU time of the server for each access token | | $(median tokens 4) µs |
| CPU time of the server, and of nginx, for each relayed call | | $(median relay 4) µs, $(median proxy 4) µs |
TEXT
