#!/usr/bin/env bash
# Sends pushes to many users during random faults, and checks that no user is lost and every repetition is marked.
#
# usage: scripts/chaos [--users N] [--faults N] [--seed N]
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
# Prints the counts, and exits with 1 if a check fails. The same seed makes the same choices. scripts/delivery injects
# one fault at a time, at each statement.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

users=100000
faults=10
seed=$((EPOCHSECONDS % 32768))
while [ $# -gt 0 ]; do
    case $1 in
        --users) users=${2:?a number} ;;
        --faults) faults=${2:?a number} ;;
        --seed) seed=${2:?a number} ;;
        -h | --help)
            print_help
            exit
            ;;
        *) fail "unknown argument $1; see --help" ;;
    esac
    shift 2
done
RANDOM=$seed
servers=3

install_requirements
swift build --product push-server >/dev/null
swift build --product kakao-sandbox >/dev/null
programs=$(swift build --show-bin-path)
bin=$(pg_config --bindir)
work=$(mktemp -d)
data=$(mktemp -d)
declare -A processes=()

# PostgreSQL refuses to run as root.
as_postgres() {
    if [ "$(id -u)" = 0 ]; then runuser --user postgres -- "$@"; else "$@"; fi
}
postgres() { (cd / && as_postgres "$bin/pg_ctl" --pgdata "$data/cluster" --silent --log "$data/log" "$@" >/dev/null 2>&1); }
end() {
    # Hides the shell's messages about killed processes.
    exec 2>/dev/null
    kill -9 "${processes[@]}" 2>/dev/null || true
    postgres stop --mode immediate || true
    wait
    rm -rf "$work" "$data"
}
trap end EXIT
trap 'exit 130' INT TERM

[ "$(id -u)" != 0 ] || chown postgres "$data"
(cd / && as_postgres "$bin/initdb" --pgdata "$data/cluster" --auth trust --username postgres >/dev/null)
cat >>"$data/cluster/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$data'
max_connections = 200
CONF
postgres start --wait
sql() { psql --quiet --no-align --tuples-only --host "$data" --username postgres postgres "$@"; }

# Overrides the caller's settings.
export KAKAO_ADMIN_KEY=sandbox-admin-key
"$programs/kakao-sandbox" --port 0 --seed "$seed" --log-level error >"$work/sandbox" 2>&1 &
processes[sandbox]=$!
wait_until 20 "the sandbox to start" grep -q ready "$work/sandbox"
sandbox=$(grep -o 'http://[^ ]*' "$work/sandbox")
fault() { curl -sf -d "$1" "$sandbox/sandbox/faults" >/dev/null; }
fault '{"path":"/v1/push/send","kind":"latency","milliseconds":50}'
fault '{"path":"/v1/push/send","kind":"status","status":500,"probability":0.1}'
fault '{"path":"/v1/push/send","kind":"drop_after_body","delivered":true,"probability":0.02}'

export DATABASE_URL="postgres://postgres@/postgres?host=$data" OPERATOR_KEY=operator-key-of-the-chaos-0123456789
export KAKAO_API_URL=$sandbox HTTP_PORT=0 LOG_LEVEL=notice
# Few concurrent requests, so that the pushes last as long as the faults.
export KAKAO_MAX_CONCURRENT_REQUESTS=${KAKAO_MAX_CONCURRENT_REQUESTS:-2}
serve() {
    "$programs/push-server" serve >"$work/server-$1" 2>&1 &
    processes[$1]=$!
}
url() { echo "http://$(grep -ohE '127\.0\.0\.1:[0-9]+' "$work/server-$1" | head -1)"; }
is_serving() { grep -q Ready "$work/server-$1"; }
"$programs/push-server" migrate >/dev/null 2>&1 || fail "push-server migrate failed"
for number in $(seq "$servers"); do serve "$number"; done
for number in $(seq "$servers"); do wait_until 30 "server $number to start" is_serving "$number"; done
sql --command "INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision)
    SELECT id, 'phone', 'fcm', 'token-' || id, 1 FROM generate_series(1, $users) AS id"

# ask DELIVERY: creates a push to everyone and prints its id. If a server is down, tries the next one with the same
# idempotency key.
ask() {
    local number id
    for number in 1 2 3 1 2 3 1 2 3; do
        id=$(curl -sf "$(url "$number")/v1/pushes" -H "Authorization: Bearer $OPERATOR_KEY" -H "Idempotency-Key: $1" \
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

victim=0
# The background jobs that continue stopped servers, by server number.
declare -A continuers=()
forget_continuer() {
    [ -n "${continuers[$1]:-}" ] || return 0
    kill "${continuers[$1]}" 2>/dev/null || true
    wait "${continuers[$1]}" 2>/dev/null || true
    unset "continuers[$1]" "processes[continuer-$1]"
}
longest_stop=$((faults < 10 ? 8 : 24))
longest_outage=$((faults < 10 ? 8 : 30))
for number in $(seq "$faults"); do
    # Spreads the faults over the time that the pushes take without faults: 50 ms for each batch, with the limited
    # concurrency.
    mean=$((users * 2 / 100 * 50 / (servers * KAKAO_MAX_CONCURRENT_REQUESTS) / faults))
    # Each round always draws three numbers, so that a seed makes the same choices in every version of this loop.
    pause=$((RANDOM % (2 * mean + 1))) kind=$((RANDOM % 7)) length=$RANDOM
    sleep "$((pause / 1000)).$(printf %03d $((pause % 1000)))"
    case $kind in
        0 | 1)
            victim=$((victim % servers + 1))
            what="server $victim is killed"
            forget_continuer "$victim"
            kill -9 "${processes[$victim]}"
            wait "${processes[$victim]}" 2>/dev/null || true
            serve "$victim"
            ;;
        2 | 3)
            victim=$((victim % servers + 1))
            length=$((2 + length % (longest_stop - 1)))
            what="server $victim is stopped for $length s"
            forget_continuer "$victim"
            kill -STOP "${processes[$victim]}"
            (sleep "$length" && kill -CONT "${processes[$victim]}") &
            continuers[$victim]=$!
            processes[continuer-$victim]=$!
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
for number in "${!continuers[@]}"; do wait "${continuers[$number]}" 2>/dev/null || true; done

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
        curl -sf "$(url 1)/v1/pushes/$1/batches?limit=1000&cursor=$next" -H "Authorization: Bearer $OPERATOR_KEY" >"$work/page"
        cat "$work/page" && echo
        next=$(grep -oE '"next":("[0-9]+"|null)' "$work/page" | tr -d '"' | cut -d: -f2)
    done
}
wait_until 30 "server 1 to start" is_serving 1
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
