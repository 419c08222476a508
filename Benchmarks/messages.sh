# shellcheck shell=bash
# The benchmark of scripts/bench messages. Sourced, not executed.
# shellcheck disable=SC2154

# shellcheck source=Benchmarks/pushes.sh
. Benchmarks/pushes.sh
# shellcheck source=Benchmarks/talk.sh
. Benchmarks/talk.sh

install_requirements jq
start_push_server
dev_url=$DATABASE_URL
start_talk_sandbox
create_database messages

serve_messages() {
    start_server serve "${talk_settings[@]}" KAKAO_MAX_CONCURRENT_REQUESTS=$connections
    wait_ready serve
    url=$(url serve)
}
serve_messages
say "Logging $senders senders in, each with $each friends"
log_senders_in

metric() { api "$url/metrics" | awk -v name="$1" '$1 == name {printf "%d\n", $2}'; }

# measure SERIES BODY NUMBER: creates the messages and waits until they have ended. Adds a row to the series: the time, messages/s,
# statements for each message, peak memory in MB, the CPU time of the server and of the sandbox for each message.
measure() {
    local statements result peak
    # A new server for each round, so that the peak memory is that of one day's messages.
    stop serve
    delete_messages
    serve_messages
    statements=$(metric kakao_push_database_statements_total)
    result=$(send_messages serve "$2" "$3")
    statements=$(($(metric kakao_push_database_statements_total) - statements))
    peak=$(awk '/^VmHWM/ {print $2}' "/proc/${processes[serve]}/status")
    awk -v m="$messages" -v statements="$statements" -v peak="$peak" \
        '{printf "%s %d %.2f %.1f %s %s\n", $1, m / $1, statements / m, peak * 1024 / 1000000, $2, $3}' <<<"$result" >>"$work/$1.series"
}

for round in $(seq "$rounds"); do
    measure friends "$to_friends" 1
    measure memos "$to_sender" "$each"
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
