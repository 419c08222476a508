# shellcheck shell=bash
# The benchmark of scripts/bench callbacks. Sourced, not executed.
# shellcheck disable=SC2154

install_requirements wrk postgresql-contrib
start_push_server

cat >"$work/callbacks.lua" <<'LUA'
local threads = 0
function setup(thread)
    thread:set("number", threads)
    threads = threads + 1
end
function init()
    count = 0
    prefix = os.time() .. "-" .. number .. "-"
end
function request()
    count = count + 1
    wrk.headers["X-Kakao-Resource-ID"] = prefix .. count
    return wrk.format("GET")
end
function done(summary)
    local errors = summary.errors
    io.write("failed ", errors.connect + errors.read + errors.write + errors.status + errors.timeout, "\n")
end
LUA
cat >"$work/insert.sql" <<'SQL'
INSERT INTO link_callbacks (key, id, chat_type, hash_chat_id, template_id, args, received_at)
VALUES (gen_random_uuid()::text, gen_random_uuid(), 'DirectChat', '147bp3dASTS0o1TpKdKykq2a', 3135,
    '{"product_id":"1234","user_id":"abcd"}', now())
ON CONFLICT (key) DO NOTHING;
SQL

callback="$SERVER_URL/kakao/link/callback?CHAT_TYPE=DirectChat&HASH_CHAT_ID=147bp3dASTS0o1TpKdKykq2a&TEMPLATE_ID=3135"
callback+="&product_id=1234&user_id=abcd"
for round in $(seq "$rounds"); do
    drive healthz push-server "$SERVER_URL/healthz"
    drive callbacks push-server --script "$work/callbacks.lua" --header "Authorization: KakaoAK $KAKAO_ADMIN_KEY" "$callback"
    pgbench --no-vacuum --client 64 --jobs 1 --time "$seconds" --protocol prepared --file "$work/insert.sql" \
        "$DATABASE_URL" 2>/dev/null | awk '/^tps/ {printf "%d\n", $3}' >>"$work/pgbench.series"
    echo "round $round: healthz $(last healthz 1)/s, callbacks $(last callbacks 1)/s" \
        "(p99 $(last callbacks 3) ms), pgbench $(last pgbench 1)/s"
done
cat <<TEXT

| measure | median of $rounds |
| --- | --- |
| resident memory, idle | $((resident / 1024)) MiB |
| GET /healthz, 64 connections | $(median healthz 1)/s |
| GET /kakao/link/callback, 64 connections, each committed | $(median callbacks 1)/s |
| pgbench, 64 clients, the same rows one by one | $(median pgbench 1)/s |
| callbacks against pgbench | $(ratio "$(median callbacks 1)" "$(median pgbench 1)") |
TEXT
