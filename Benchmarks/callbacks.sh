# shellcheck shell=bash
# The benchmark of scripts/bench callbacks. Sourced, not executed.
# shellcheck disable=SC2154

install_requirements wrk postgresql-contrib jq
# Shares need a key, and one argument is counted.
export SHARING_SIGNING_KEY=the-signing-key-of-the-benchmark-0123456789 SHARING_STATISTICS_ARGS=product_id
start_push_server

# 200 shares of 20 campaigns, each about one of 100 products.
for number in $(seq 200); do
    curl -sS --fail "$SERVER_URL/v1/link/shares" --header "Authorization: Bearer $OPERATOR_KEY" --json \
        "{\"template_id\": 3135, \"campaign\": \"campaign-$((number % 20))\", \"args\": {\"product_id\": \"$((number % 100))\", \"user_id\": \"abcd\"}}"
done | jq -r '.callback_args | "\"&" + (to_entries | map("\(.key)=\(.value)") | join("&")) + "\","' >"$work/shares"

# Writes a script for wrk, whose callbacks have the arguments of a list in turn.
callbacks() {
    cat <<LUA
local threads = 0
function setup(thread)
    thread:set("number", threads)
    threads = threads + 1
end
function init()
    count = 0
    prefix = os.time() .. "-" .. number .. "-"
    args = {$(cat)}
    path = "/kakao/link/callback?CHAT_TYPE=DirectChat&HASH_CHAT_ID=147bp3dASTS0o1TpKdKykq2a&TEMPLATE_ID=3135"
end
function request()
    count = count + 1
    wrk.headers["X-Kakao-Resource-ID"] = prefix .. count
    return wrk.format("GET", path .. args[count % #args + 1])
end
LUA
    reported_failures
}
echo '"&product_id=1234&user_id=abcd"' | callbacks >"$work/callbacks.lua"
callbacks <"$work/shares" >"$work/shared.lua"

if [ "$endpoints" -gt 0 ]; then
    # shellcheck source=Benchmarks/callbacks-endpoints.sh
    . Benchmarks/callbacks-endpoints.sh
    exit
fi

cat >"$work/insert.sql" <<'SQL'
INSERT INTO link_callbacks (key, id, chat_type, hash_chat_id, template_id, args, received_at)
VALUES (gen_random_uuid()::text, gen_random_uuid(), 'DirectChat', '147bp3dASTS0o1TpKdKykq2a', 3135,
    '{"product_id":"1234","user_id":"abcd"}', now())
ON CONFLICT (key) DO NOTHING;
SQL

for round in $(seq "$rounds"); do
    drive healthz dev "$SERVER_URL/healthz"
    for kind in callbacks shared; do
        drive "$kind" dev --script "$work/$kind.lua" --header "Authorization: KakaoAK $KAKAO_ADMIN_KEY" \
            "$SERVER_URL/kakao/link/callback"
    done
    pgbench_rate pgbench insert
    echo "round $round: healthz $(last healthz 1)/s, callbacks $(last callbacks 1)/s" \
        "(p99 $(last callbacks 3) ms), of shares $(last shared 1)/s (p99 $(last shared 3) ms), pgbench $(last pgbench 1)/s"
done
cat <<TEXT

| measure | median of $rounds |
| --- | --- |
| resident memory, idle | $((resident / 1024)) MiB |
| GET /healthz, 64 connections | $(median healthz 1)/s |
| GET /kakao/link/callback, 64 connections, each committed and counted | $(median callbacks 1)/s |
| the same with the signed arguments of 200 shares | $(median shared 1)/s |
| pgbench, 64 clients, the same rows one by one | $(median pgbench 1)/s |
| callbacks against pgbench | $(ratio "$(median callbacks 1)" "$(median pgbench 1)") |
| callbacks of shares against pgbench | $(ratio "$(median shared 1)" "$(median pgbench 1)") |
TEXT
