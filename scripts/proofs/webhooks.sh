# shellcheck shell=bash
# Kills of servers and outages of PostgreSQL lose, forge and displace no webhook.
#
# usage: scripts/prove webhooks [--callbacks N] [--pushes N] [--kills N] [--interval SECONDS] [--seed N]
#
# Three servers share one PostgreSQL, one folder of journals and one sandbox, which is Kakao and the endpoint of webhooks. CALLBACKS
# (10,000) Link callbacks and PUSHES (10,000) pushes to one user each arrive at all servers. Meanwhile, one of the servers is killed
# (SIGKILL) and started again every SECONDS (20), KILLS (10) times, and PostgreSQL is stopped twice, each time until a twentieth of the
# callbacks has arrived: those are in the journal, and are stored later. Checks at the end:
#
#   - Every callback that was answered 200, and every push, is stored and is at the endpoint.
#   - The webhooks of each type have arrived, each for the first time, in the order of the transactions in the tables.
#   - A tenth of the callbacks was in the journal.
#   - The independent library `standardwebhooks` (PyPI) has verified the signatures of every webhook, under both secrets.
#
# Prints the counts, and exits with 1 if a check fails. The same seed makes the same choices.

# shellcheck disable=SC2154
read_numbers callbacks=10000 pushes=10000 kills=10 interval=20 seed=$((EPOCHSECONDS % 32768)) -- "$@"
RANDOM=$seed
servers=(server-1 server-2 server-3)

install_requirements python3 python3-venv
# shellcheck source=scripts/servers.sh
. scripts/servers.sh
build push-server kakao-sandbox
say "Installing standardwebhooks from PyPI"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check standardwebhooks
start_postgres
start_sandbox --seed "$seed"
export OPERATOR_KEY=operator-key-of-the-webhooks-0123456789 JOURNAL_DIRECTORY=$work/journal
WEBHOOKS_URL=$sandbox/webhooks
WEBHOOKS_SECRET=whsec_$(openssl rand -base64 32)
WEBHOOKS_SECRET_NEXT=whsec_$(openssl rand -base64 32)
export WEBHOOKS_URL WEBHOOKS_SECRET WEBHOOKS_SECRET_NEXT
migrate
start_servers "${servers[@]}"

say "Seed $seed: $callbacks callbacks and $pushes pushes; servers are killed $kills times"
begin=$SECONDS
start client "$work/venv/bin/python" scripts/proofs/webhooks.py "$work" "$sandbox" "$callbacks" "$pushes" $((9 * kills * interval / 10)) "${servers[@]}"
wait_for client test -s "$work/progress"

# Reads the client's progress, and fails if a process has exited by itself. Sets $answered, the number of callbacks that were
# answered, $arrivals, the number of webhooks that have arrived, and $phase, `sending` or `sent`.
read_progress() {
    check_running client "${servers[@]}"
    read -r answered arrivals phase <"$work/progress"
}
report() { echo "after $((SECONDS - begin)) s: $*"; }
# Whether a server has begun to deliver since its start. Only its death ends that.
delivers() { grep -q "Delivering webhooks" "$work/$1.log" "$work/$1.out"; }

read_progress
killed_deliverers=0
for number in $(seq 0 $((kills - 1))); do
    sleep "$interval"
    if [ "$number" = $((kills / 4)) ] || [ "$number" = $((kills / 2)) ]; then
        postgres stop --mode immediate
        read_progress
        before=$answered
        # A few more, since the last of them are stored within a second.
        while [ "$answered" -lt $((before + callbacks * 6 / 100)) ] && [ "$phase" = sending ]; do
            sleep 0.1
            read_progress
        done
        postgres start --wait
        report "PostgreSQL was stopped while $((answered - before)) callbacks arrived"
    fi
    # Every second one is the server that delivers, if there is one.
    victim=${servers[RANDOM % ${#servers[@]}]}
    if ((number % 2 == 0)); then
        for server in "${servers[@]}"; do ! delivers "$server" || victim=$server; done
    fi
    what=
    if delivers "$victim"; then
        what=", which delivers"
        killed_deliverers=$((killed_deliverers + 1))
    fi
    crash "$victim"
    start_server "$victim"
    read_progress
    report "$victim is killed$what; $arrivals webhooks have arrived"
done
while [ "$phase" = sending ]; do
    sleep 0.5
    read_progress
done
report "all callbacks and pushes are answered"
wait "${processes[client]}" && status=0 || status=$?
cat "$work/client.out" "$work/client.log"
echo "  servers killed              $kills, $killed_deliverers of them while they delivered"
[ "$status" = 0 ] || fail "seed $seed: see above"
