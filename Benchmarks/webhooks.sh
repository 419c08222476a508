# shellcheck shell=bash
# The benchmark of scripts/bench webhooks. Sourced, not executed.
# shellcheck disable=SC2154

# shellcheck source=Benchmarks/pushes.sh
. Benchmarks/pushes.sh
# shellcheck source=Benchmarks/receivers.sh
. Benchmarks/receivers.sh

# The webhooks of a measurement: so many that it takes some seconds.
many=30000
few=4000
milliseconds=20

install_requirements wrk jq
build --release kakao-sandbox push-server
start_postgres
dev_url=$DATABASE_URL
export OPERATOR_KEY=operator-key-of-the-benchmark-0123456789
start_sandbox
start_receivers fast slow hanging
fail_requests slow "\"kind\":\"latency\",\"milliseconds\":$milliseconds"
fail_requests hanging '"kind":"latency","milliseconds":600000'

declare -A databases=()
for name in fast alone beside; do
    create_database "$name"
    databases[$name]=$DATABASE_URL
done

# deliver NAME COUNT RECEIVER [RECEIVER]: stores so many callbacks with their webhooks, has a server deliver those of the first receiver, and
# adds a row to the series: webhooks/s, the CPU time of the server for each in µs, and the repetitions.
deliver() {
    local name=$1 count=$2 receiver=$3 before begin took
    DATABASE_URL=${databases[$name]}
    # An endpoint that hangs is found out anew in each round.
    sql --command 'TRUNCATE webhook_events, link_callbacks, share_events' --command CHECKPOINT \
        --command "UPDATE webhook_endpoints SET state = 'delivering', probes = 0, next_probe_at = now()"
    curl -sSf --request DELETE "${receivers[$receiver]}/sandbox/webhooks" >/dev/null
    webhook_settings "${@:3}"
    start_server serve "${settings[@]}"
    wait_ready serve
    before=$(cpu_ticks serve)
    # As InsertLinkCallbacks stores them.
    sql >/dev/null <<SQL
WITH callback AS (
    INSERT INTO link_callbacks (key, id, chat_type, hash_chat_id, template_id, args, received_at)
    SELECT gen_random_uuid()::text, gen_random_uuid(), 'DirectChat', '147bp3dASTS0o1TpKdKykq2a', 3135,
        '{"product_id":"1234","user_id":"abcd"}', now()
    FROM generate_series(1, $count - 1)
    RETURNING id, received_at
)
INSERT INTO webhook_events (id, endpoint, type, happened_at, subject)
SELECT uuid_v7(), endpoint.name, 'link.callback.received', received_at, 'callbacks/' || callback.id
FROM callback
CROSS JOIN webhook_endpoints AS endpoint;
SQL
    begin=$EPOCHREALTIME
    # One more, which wakes the server.
    curl -sSf "$(url serve)/kakao/link/callback?CHAT_TYPE=DirectChat&HASH_CHAT_ID=147bp3dASTS0o1TpKdKykq2a&TEMPLATE_ID=3135&product_id=1234" \
        --header "Authorization: KakaoAK $KAKAO_ADMIN_KEY" >/dev/null
    until [ "$(received "$receiver" $((count - 1)))" -ge 1 ]; do
        check_running serve
        sleep 0.05
    done
    took=$(awk "BEGIN {print $EPOCHREALTIME - $begin}")
    are_delivered() { [ "$(sql --command "SELECT EXISTS (SELECT FROM webhook_events WHERE endpoint = 'default' AND state <> 'delivered')")" = f ]; }
    wait_until 60 "the results" are_delivered
    awk -v count="$count" -v took="$took" -v ticks=$(($(cpu_ticks serve) - before)) -v hertz="$(getconf CLK_TCK)" \
        -v repetitions="$(received "$receiver" "$count")" \
        'BEGIN {printf "%.0f %.1f %d\n", count / took, ticks * 1000000 / hertz / count, repetitions}' >>"$work/$name.series"
    stop serve
}

# request RECEIVER: has wrk send the same request to a receiver over as many connections as a server uses. Adds the rate to the series.
cat >"$work/webhook.lua" <<'LUA'
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["webhook-id"] = "msg_01926f3e-7a5b-7c3d-9e1f-0a2b3c4d5e6f"
wrk.headers["webhook-timestamp"] = "1764000000"
wrk.headers["webhook-signature"] = "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="
wrk.body = '{"type":"link.callback.received","timestamp":"2026-11-23T09:00:00.000Z","subject":"callbacks/01926f3e-7a5b-7c3d-9e1f-0a2b3c4d5e6f",'
    .. '"revision":1764000000000000,"data":{"id":"01926f3e-7a5b-7c3d-9e1f-0a2b3c4d5e6f","resource_id":null,"chat_type":"DirectChat",'
    .. '"hash_chat_id":"147bp3dASTS0o1TpKdKykq2a","template_id":3135,"args":{"product_id":"1234","user_id":"abcd"}}}'
LUA
request() {
    wrk --threads 1 --connections 8 --duration "${seconds}s" --script "$work/webhook.lua" "${receivers[$1]}/webhooks" >"$work/wrk"
    if grep -E 'Non-2xx|Socket errors' "$work/wrk"; then fail "wrk: requests failed"; fi
    awk '$1 == "Requests/sec:" {printf "%.0f\n", $2}' "$work/wrk" >>"$work/wrk-$1.series"
}

for round in $(seq "$rounds"); do
    request fast
    request slow
    deliver fast $many fast
    # Each comes first in every other round.
    if ((round % 2)); then
        deliver alone $few slow
        deliver beside $few slow hanging
    else
        deliver beside $few slow hanging
        deliver alone $few slow
    fi
    echo "round $round: at once $(last fast 1)/s, after $milliseconds ms $(last alone 1)/s, beside an endpoint that hangs $(last beside 1)/s;" \
        "wrk $(last wrk-fast 1)/s and $(last wrk-slow 1)/s"
done
repetitions=$(cat "$work"/{fast,alone,beside}.series | awk '{sum += $3} END {print sum}')
cat <<TEXT

| measure | target | median of $rounds |
| --- | --- | --- |
| webhooks/s, receiver answers after $milliseconds ms | | $(median alone 1) |
| the same against \`wrk\` with 8 connections, whose requests take $(awk -v rate="$(median wrk-slow 1)" 'BEGIN {printf "%.1f", 8000 / rate}') ms | ≥ 0.8 | $(ratios alone wrk-slow 1) |
| beside an endpoint that hangs, against alone | ≥ 0.9 | $(ratios beside alone 1) |
| webhooks/s, receiver answers at once | ≥ 5000 | $(median fast 1) |
| the same against \`wrk\` with 8 connections ($(median wrk-fast 1)/s) | | $(ratios fast wrk-fast 1) |
| CPU time of the server for each webhook | | $(median fast 2) µs |
| repetitions | 0 | $repetitions |
TEXT
[ "$repetitions" = 0 ] || fail "webhooks were repeated"
