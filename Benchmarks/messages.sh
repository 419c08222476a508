# shellcheck shell=bash
# The benchmark of scripts/bench messages. Sourced, not executed.
# shellcheck disable=SC2154

# shellcheck source=scripts/benchmarks/pushes.sh
. scripts/benchmarks/pushes.sh

# What Kakao allows an app in a day: 30,000 messages, 100 of each sender.
senders=300
each=100
messages=$((senders * each))

install_requirements postgresql-contrib jq
start_push_server
dev_url=$DATABASE_URL
program=$(built push-server)
sandbox_port=$(free_port)
start sandbox "$(built kakao-sandbox)" --port "$sandbox_port" --admin-key "$KAKAO_ADMIN_KEY" --app-id 1
sandbox=http://127.0.0.1:$sandbox_port
wait_for sandbox curl -sf "$sandbox/sandbox/talk/messages/totals"
export KAKAO_AUTH_URL=$sandbox KAKAO_APP_ID=1 KAKAO_REST_API_KEY=sandbox-rest-api-key
export KAKAO_CLIENT_SECRET=sandbox-client-secret TALK_REQUESTS_PER_SECOND=100000
ACCOUNTS_ENCRYPTION_KEY=$(head -c 32 /dev/urandom | base64)
export ACCOUNTS_ENCRYPTION_KEY
create_database messages 0
serve "$sandbox_port"

say "Logging $senders senders in, each with $each friends"
jq --null-input --compact-output "{users: [range(1; $senders + 1) | . as \$sender | {user_id: ., friends: [range(1; $each + 1) | \$sender * 1000 + .]}]}" |
    curl -sSf "$sandbox/sandbox/talk/friends" --data @- >/dev/null
for sender in $(seq "$senders"); do
    token=$(curl -sSf "$sandbox/sandbox/login" --data "{\"user_id\":$sender}" | jq --raw-output .access_token)
    api "$url/v1/accounts/$sender/tokens" --request PUT --data refreshed_by=app --data app_key=rest --data "access_token=$token" \
        --data-urlencode 'scope=friends talk_message' >/dev/null
done

metric() { api "$url/metrics" | awk -v name="$1" '$1 == name {printf "%d\n", $2}'; }

# requests BODY NUMBER: writes to $work/requests the creation of that many messages of each sender; {} in the body is the
# sender.
requests() {
    for sender in $(seq "$senders"); do
        for _ in $(seq "$2"); do
            printf 'next\nurl = "%s/v1/messages"\nheader = "Authorization: Bearer %s"\nheader = "Content-Type: application/json"\n' "$url" "$OPERATOR_KEY"
            printf 'data = "%s"\nfail\nsilent\nshow-error\noutput = "/dev/null"\n' "${1//\{\}/$sender}"
        done
    done | tail -n +2 >"$work/requests"
}

# measure SERIES BODY NUMBER: creates the messages and waits until they have ended.
measure() {
    # A new server for each round, so that the peak memory is that of one day's messages.
    stop_serving
    sql --command 'TRUNCATE messages, message_receivers, message_quotas' --command CHECKPOINT >/dev/null
    curl -sSf --request DELETE "$sandbox/sandbox/talk/app" >/dev/null
    curl -sSf --request DELETE "$sandbox/sandbox/talk/messages" >/dev/null
    serve "$sandbox_port"
    requests "$2" "$3"
    local statements before kakao
    statements=$(metric kakao_push_database_statements_total)
    before=$(cpu_ticks serve)
    kakao=$(cpu_ticks sandbox)
    curl --parallel --parallel-max 32 --no-progress-meter --config "$work/requests" || fail "$1: messages were not created"
    sql >/dev/null --command "SET statement_timeout = '300s'" --command "DO \$\$ BEGIN
        WHILE EXISTS (SELECT FROM messages WHERE state <> 'done') LOOP
            COMMIT;
            PERFORM pg_sleep(0.1);
        END LOOP;
    END \$\$" || fail "$1: the messages were not sent within 300 s"
    [ "$(sql --command "SELECT count(*) FROM message_receivers WHERE state = 'sent'")" = "$messages" ] || fail "$1: not all messages were sent"
    [ "$(curl -sSf "$sandbox/sandbox/talk/messages/totals" | jq '[.delivered[]] | add')" = "$messages" ] || fail "$1: not all messages arrived once"
    sql --field-separator ' ' --command "
        SELECT extract(epoch FROM (SELECT max(finished_at) FROM message_receivers) - min(created_at)),
            $(metric kakao_push_database_statements_total) - $statements, $(awk '/^VmHWM/ {print $2}' "/proc/${processes[serve]}/status"),
            $(($(cpu_ticks serve) - before)), $(($(cpu_ticks sandbox) - kakao))
        FROM messages" |
        awk -v m="$messages" -v hertz="$(getconf CLK_TCK)" \
            '{printf "%.1f %d %.2f %.1f %.0f %.0f\n", $1, m / $1, $2 / m, $3 * 1024 / 1000000, $4 * 1000000 / hertz / m, $5 * 1000000 / hertz / m}' >>"$work/$1.series"
}

template='\"template\":{\"object_type\":\"text\",\"text\":\"Your order is on its way.\",\"link\":{\"web_url\":\"https://shop.example.com\"}}'
friends=$(printf '{}%03d,' $(seq "$each"))
for round in $(seq "$rounds"); do
    measure friends "{\\\"sender\\\":{},\\\"to\\\":{\\\"users\\\":[${friends%,}]},$template}" 1
    measure memos "{\\\"sender\\\":{},\\\"to\\\":\\\"me\\\",$template}" "$each"
    echo "round $round: to friends $(last friends 1) s, to the senders themselves $(last memos 1) s"
done

cat <<TEXT

$messages messages, $each of each of $senders senders, from the first request to the last result; medians of $rounds

| measure | target | to friends | to the senders themselves |
| --- | --- | --- | --- |
| total time | ≤ 60 s | $(median friends 1) s | $(median memos 1) s |
| messages/s | | $(median friends 2) | $(median memos 2) |
| database statements for each message | ≤ 1 | $(median friends 3) | $(median memos 3), 1 of them for the request that creates it |
| peak resident memory | | $(median friends 4) MB | $(median memos 4) MB |
| CPU time of the server for each message | | $(median friends 5) µs | $(median memos 5) µs |
| CPU time of the sandbox for each message | | $(median friends 6) µs | $(median memos 6) µs |
TEXT
