# shellcheck shell=bash
# Kills of servers, outages of PostgreSQL and a restored dump lose, forge and change no webhook.
#
# usage: scripts/prove webhooks [--small] [--callbacks N] [--pushes N] [--kills N] [--interval SECONDS] [--seed N]
#
# Three servers share one PostgreSQL, one folder of journals, one sandbox in place of Kakao, and two endpoints: `default` gets all types,
# and signs with two secrets; `analytics` gets those of pushes. CALLBACKS (10,000) Link callbacks and PUSHES (5,000) pushes, which another
# key approves, arrive at all servers: 20,000 webhooks for the first endpoint, and 10,000 of them for the second one as well.
#
# Meanwhile, one of the servers is killed (SIGKILL) and started again every SECONDS (20), KILLS (10) times. PostgreSQL is stopped twice, each
# time until a twentieth of the callbacks has arrived: those are in the journal, and are stored later. Once, all servers are killed, and a
# dump of the database is restored in a new cluster. The endpoints answer 2 % of the requests with 500 and a fifth after 50 ms, break
# 1 % of the connections after they have read the request, and in turn answer 503 for a while. Checks at the end:
#
#   - Every callback that was answered 200, and both states of every push, are events in the database, and every event has arrived at each
#     endpoint that wants it, and at no other.
#   - Every repetition of a webhook has the same body as the first.
#   - A receiver that drops what is older by `subject` and `revision` knows each push as the API shows it.
#   - A tenth of the callbacks was in the journal.
#   - The independent library `standardwebhooks` (PyPI) has verified every request, under each secret of its endpoint.
#
# --small is 1,000 callbacks, 500 pushes and 4 kills, one every 8 s. Prints the counts, and exits with 1 if a check fails. The same seed makes
# the same choices.

# shellcheck disable=SC2089,SC2090,SC2119,SC2154
defaults=(callbacks=10000 pushes=5000 kills=10 interval=20)
if [ "${1:-}" = --small ]; then
    shift
    defaults=(callbacks=1000 pushes=500 kills=4 interval=8)
fi
read_numbers "${defaults[@]}" seed=$((EPOCHSECONDS % 32768)) -- "$@"
RANDOM=$seed
servers=(server-1 server-2 server-3)
endpoints=(default analytics)

install_requirements python3 python3-venv
# shellcheck source=scripts/servers.sh
. scripts/servers.sh
build push-server kakao-sandbox
say "Installing standardwebhooks from PyPI"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check standardwebhooks
start_postgres
start_sandbox --seed "$seed"

# MARK: Endpoints

# Each endpoint is the receiver of a sandbox of its own.
declare -A receivers=()
new_secret() { echo "whsec_$(openssl rand -base64 32)"; }
# fail_requests ENDPOINT JSON: has the endpoint fail requests.
fail_requests() { curl -sf -d "{\"path\":\"/webhooks\",$2}" "${receivers[$1]}/sandbox/faults" >/dev/null; }
for endpoint in "${endpoints[@]}"; do
    start "$endpoint" "$programs/kakao-sandbox" --port 0 --log-level error --seed "$seed"
    wait_for "$endpoint" grep -q ready "$work/$endpoint.out"
    receivers[$endpoint]=$(grep -o 'http://[^ ]*' "$work/$endpoint.out")
    fail_requests "$endpoint" '"kind":"latency","milliseconds":50,"probability":0.2'
    fail_requests "$endpoint" '"kind":"status","status":500,"probability":0.02'
    fail_requests "$endpoint" '"kind":"drop_after_body","delivered":true,"probability":0.01'
done
export OPERATOR_KEY=operator-key-of-the-webhooks-0123456789 JOURNAL_DIRECTORY=$work/journal PUSHES_APPROVAL_ABOVE_USERS=0
WEBHOOKS_URL=${receivers[default]}/webhooks
WEBHOOKS_SECRET=$(new_secret)
WEBHOOKS_SECRET_NEXT=$(new_secret)
ANALYTICS_SECRET=$(new_secret)
printf -v WEBHOOKS_ENDPOINTS '[{"name":"analytics","url":"%s/webhooks","secret":"%s","types":"push.*"}]' "${receivers[analytics]}" "$ANALYTICS_SECRET"
export WEBHOOKS_URL WEBHOOKS_SECRET WEBHOOKS_SECRET_NEXT WEBHOOKS_ENDPOINTS ANALYTICS_SECRET
migrate
# A push is approved by a key that is not related to its creator's: operator.key.
CREATOR_KEY=$("$programs/push-server" keys create --name shop --role marketing | grep -o 'kps_[^ ]*')
export CREATOR_KEY
start_servers "${servers[@]}"

# MARK: Load and faults

say "Seed $seed: $callbacks callbacks and $pushes pushes; servers are killed $kills times"
begin=$SECONDS
RECEIVERS="default=${receivers[default]} analytics=${receivers[analytics]}" start client "$work/venv/bin/python" \
    scripts/proofs/webhooks.py "$work" "$callbacks" "$pushes" $((12 * kills * interval / 10)) "${servers[@]}"
wait_for client test -s "$work/progress"

# Reads the client's progress, and fails if a process has exited by itself. Sets $answered, the number of callbacks that were
# answered, $arrivals, the number of webhooks that have arrived, and $phase, `sending` or `sent`.
read_progress() {
    check_running client "${endpoints[@]}" "${servers[@]}"
    read -r answered arrivals phase <"$work/progress"
}
report() { echo "after $((SECONDS - begin)) s: $*"; }

# Stops PostgreSQL until callbacks have arrived meanwhile.
interrupt_postgres() {
    local before
    postgres stop --mode immediate
    read_progress
    before=$answered
    # A few more, since the last of them are stored within a second.
    while [ "$answered" -lt $((before + callbacks * 6 / 100)) ] && [ "$answered" -lt "$callbacks" ]; do
        sleep 0.1
        read_progress
    done
    postgres start --wait
    report "PostgreSQL was stopped while $((answered - before)) callbacks arrived"
}

# Kills all servers, and restores a dump of the database in a new cluster.
restore_dump() {
    local server
    for server in "${servers[@]}"; do crash "$server"; done
    pg_dump --file "$work/dump" "$DATABASE_URL"
    postgres stop --mode fast --wait
    rm -rf "$work/postgres"
    create_postgres postgres
    postgres start --wait
    sql --set ON_ERROR_STOP=1 --file "$work/dump" >/dev/null
    start_servers "${servers[@]}"
    report "all servers were killed, and a dump is restored in a new cluster"
}

read_progress
for number in $(seq 0 $((kills - 1))); do
    sleep "$interval"
    # So few that the probes reach the end within seconds.
    fail_requests "${endpoints[number % 2]}" '"kind":"status","status":503,"retry_after":1,"times":10'
    case $number in
        $((kills / 4)) | $((kills / 2))) interrupt_postgres ;;
        $((kills * 3 / 4))) restore_dump ;;
    esac
    victim=${servers[RANDOM % ${#servers[@]}]}
    crash "$victim"
    start_server "$victim"
    read_progress
    report "$victim is killed; $arrivals webhooks have arrived"
done
while [ "$phase" = sending ]; do
    sleep 0.5
    read_progress
done
report "all callbacks and pushes are answered"
wait "${processes[client]}" && status=0 || status=$?
unset "processes[client]"
cat "$work/client.out" "$work/client.log"
[ "$status" = 0 ] || fail "seed $seed: see above"
