# shellcheck shell=bash
# Two pushes during random faults lose no user, and mark every repetition.
#
# usage: scripts/prove chaos [--users N] [--faults N] [--seed N]
#
# Three servers share one PostgreSQL and one sandbox, which answers after 50 ms, answers 10 % of the requests with 500, and breaks 2 % of the
# connections after accepting the request. Two pushes to N (100,000) users each are in flight, one at_least_once and one
# at_most_once. N (10) faults follow at random moments:
#
#   - a server is killed (SIGKILL) and started again,
#   - a server is stopped (SIGSTOP) for 2 to 24 s and continued, while further faults follow,
#   - PostgreSQL is restarted (immediate),
#   - PostgreSQL is stopped for 2 to 30 s, so that servers must keep their results,
#   - PostgreSQL terminates every connection.
#
# With fewer than 10 faults, stops last for at most 8 s. Checks at the end:
#
#   - at_least_once has reached every user, and each user who was reached twice is in a batch with may_repeat.
#   - at_most_once has reached no user twice, and each user who was not reached is in a batch that is uncertain or failed.
#
# Prints the counts, and exits with 1 if a check fails. The same seed makes the same choices. scripts/prove
# delivery injects one fault at a time, at each statement.

# shellcheck disable=SC2034,SC2154
read_numbers users=100000 faults=10 seed=$((EPOCHSECONDS % 32768)) -- "$@"
RANDOM=$seed
servers=(server-1 server-2 server-3)

install_requirements
# shellcheck source=scripts/servers.sh
. scripts/servers.sh
build push-server kakao-sandbox
start_postgres
start_sandbox --seed "$seed"
fault '{"path":"/v1/push/send","kind":"latency","milliseconds":50}'
fault '{"path":"/v1/push/send","kind":"status","status":500,"code":-1,"probability":0.1}'
fault '{"path":"/v1/push/send","kind":"another_host","status":502,"delivered":true,"probability":0.01}'
fault '{"path":"/v1/push/send","kind":"drop_after_body","delivered":true,"probability":0.02}'
export OPERATOR_KEY=operator-key-of-the-chaos-0123456789
# Few concurrent requests, so that the pushes last as long as the faults.
export KAKAO_MAX_CONCURRENT_REQUESTS=${KAKAO_MAX_CONCURRENT_REQUESTS:-2}
migrate
start_servers "${servers[@]}"
sql --command "INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision)
    SELECT id, 'phone', 'fcm', 'token-' || id, 1 FROM generate_series(1, $users) AS id"

# ask DELIVERY: creates a push to everyone and prints its id. If a server is down, tries the next one with the same
# idempotency key.
ask() {
    local server id
    for server in "${servers[@]}" "${servers[@]}" "${servers[@]}"; do
        id=$(curl -sf "$(url "$server")/v1/pushes" -H "Authorization: Bearer $OPERATOR_KEY" -H "Idempotency-Key: $1" \
            -H 'Content-Type: application/json' \
            -d "{\"audience\":{\"everyone\":true},\"delivery\":\"$1\",\"message\":{\"for_gcm\":{\"custom_field\":{\"marker\":\"$1\"}}}}" |
            sed -E 's/^\{"id":"([^"]*)".*/\1/') && [ -n "$id" ] && break
        sleep 1
    done
    [ -n "$id" ] || fail "no server accepted the push"
    printf '%s' "$id"
}
say "Seed $seed: $users users, $faults faults"
begin=$SECONDS
at_least_once=$(ask at_least_once)
at_most_once=$(ask at_most_once)

number=0
# Chooses the next server in turn, which no background job will continue. Sets $victim.
choose_victim() {
    number=$((number % ${#servers[@]} + 1))
    victim=server-$number
    [ -z "${processes[continue-$victim]:-}" ] || stop "continue-$victim"
}
continue_after() { sleep "$1" && kill -CONT "$2"; }
longest_stop=$((faults < 10 ? 8 : 24))
longest_outage=$((faults < 10 ? 8 : 30))
for _ in $(seq "$faults"); do
    # Spreads the faults over the time that the pushes take without faults: 50 ms for each batch, with the limited
    # concurrency.
    mean=$((users * 2 / 100 * 50 / (${#servers[@]} * KAKAO_MAX_CONCURRENT_REQUESTS) / faults))
    # Each round always draws three numbers, so that a seed makes the same choices in every version of this loop.
    pause=$((RANDOM % (2 * mean + 1))) kind=$((RANDOM % 7)) length=$RANDOM
    sleep "$((pause / 1000)).$(printf %03d $((pause % 1000)))"
    case $kind in
        0 | 1)
            choose_victim
            what="$victim is killed"
            crash "$victim"
            start_server "$victim"
            ;;
        2 | 3)
            choose_victim
            length=$((2 + length % (longest_stop - 1)))
            what="$victim is stopped for $length s"
            kill -STOP "${processes[$victim]}"
            start "continue-$victim" continue_after "$length" "${processes[$victim]}"
            ;;
        4)
            what="PostgreSQL is restarted"
            postgres restart --mode immediate --wait
            ;;
        5)
            length=$((2 + length % (longest_outage - 1)))
            what="PostgreSQL was stopped for $length s"
            postgres stop --mode fast --wait
            sleep "$length"
            postgres start --wait
            ;;
        6)
            what="PostgreSQL terminates every connection"
            sql --command "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()" >/dev/null || true
            ;;
    esac
    sent=$(sql --command "SELECT COALESCE(sum(batches), 0) FROM push_counts" || echo '?')
    echo "after $((SECONDS - begin)) s, with $sent batches finished: $what"
done
for victim in "${servers[@]}"; do
    [ -z "${processes[continue-$victim]:-}" ] || wait "${processes[continue-$victim]}" || true
done

are_done() { [ "$(sql --command "SELECT count(*) FROM pushes WHERE state = 'done'")" = 2 ]; }
wait_until $((300 + users / 100)) "the pushes to be done" are_done
say "Done after $((SECONDS - begin)) s"

# reached MARKER: prints the users that were reached and how often, one user a line.
reached() {
    local after=0 page
    while [ "$after" != null ]; do
        page=$(curl -sf "$sandbox/sandbox/reached?marker=$1&min_times=1&after=$after&limit=10000")
        grep -oE '"user_id":"[0-9]+","times":[0-9]+' <<<"$page" | tr -dc '0-9,\n' || true
        after=$(grep -oE '"next":("?[0-9]+"?|null)' <<<"$page" | tr -d '"' | cut -d: -f2)
    done
}
# batches ID: prints the batches of a push as JSON, one page a line.
batches() {
    local next=0
    while [ "$next" != null ]; do
        curl -sf "$(url server-1)/v1/pushes/$1/batches?limit=1000&cursor=$next" -H "Authorization: Bearer $OPERATOR_KEY" >"$work/page"
        cat "$work/page" && echo
        next=$(grep -oE '"next":("[0-9]+"|null)' "$work/page" | tr -d '"' | cut -d: -f2)
    done
}
wait_ready server-1
for marker in at_least_once at_most_once; do
    reached "$marker" >"$work/$marker.csv"
    batches "${!marker}" >"$work/$marker.batches"
    sql <<SQL >"$work/$marker.counts"
CREATE TEMPORARY TABLE reached (user_id bigint PRIMARY KEY, times integer);
\copy reached FROM '$work/$marker.csv' WITH (FORMAT csv)
CREATE TEMPORARY TABLE page (json jsonb);
\copy page FROM '$work/$marker.batches' WITH (FORMAT csv, DELIMITER E'\x01', QUOTE E'\x02')
\pset fieldsep ' '
WITH member AS (
    SELECT batch.*, unnest(uuids) AS user_id
    FROM page
    CROSS JOIN jsonb_to_recordset(json -> 'items') AS batch (state text, may_repeat boolean, uuids bigint[])
)
SELECT count(*), count(DISTINCT member.user_id),
    count(*) FILTER (WHERE times IS NULL),
    count(*) FILTER (WHERE times IS NULL AND state NOT IN ('uncertain', 'failed')),
    count(*) FILTER (WHERE times > 1),
    count(*) FILTER (WHERE times > 1 AND NOT may_repeat),
    count(*) FILTER (WHERE state = 'uncertain'), count(*) FILTER (WHERE state = 'failed'), count(*) FILTER (WHERE may_repeat)
FROM member
LEFT JOIN reached USING (user_id);
SQL
    read -r planned distinct missed missed_silently twice twice_silently uncertain failed may_repeat <"$work/$marker.counts"
    cat <<TEXT

$marker
  users in batches            $planned ($distinct distinct; $users registered)
  not reached                 $missed, of them not in uncertain or failed batches: $missed_silently
  reached more than once      $twice, of them not in batches with may_repeat: $twice_silently
  users by batch              uncertain $uncertain, failed $failed, may_repeat $may_repeat
TEXT
    [ "$planned" = "$users" ] && [ "$distinct" = "$users" ] || fail "seed $seed: the batches do not contain every user exactly once"
    case $marker in
        at_least_once)
            [ "$missed" = 0 ] || fail "seed $seed: at_least_once did not reach $missed users"
            [ "$twice_silently" = 0 ] || fail "seed $seed: at_least_once reached $twice_silently users twice without may_repeat"
            ;;
        at_most_once)
            [ "$twice" = 0 ] || fail "seed $seed: at_most_once reached $twice users twice"
            [ "$missed_silently" = 0 ] || fail "seed $seed: at_most_once lost $missed_silently users: not reached, batch neither uncertain nor failed"
            ;;
    esac
done
