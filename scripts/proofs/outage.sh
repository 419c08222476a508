# shellcheck shell=bash
# An outage of PostgreSQL and kills of the server lose no call from Kakao that was accepted.
#
# usage: scripts/prove outage [--seconds N] [--rate N] [--connections N] [--kills N]
#
# A server with a journal gets RATE (2,000) Link callbacks a second over CONNECTIONS (64) keep-alive connections. Every
# third call repeats the name (X-Kakao-Resource-ID) of the previous one. PostgreSQL runs for 5 s and is then stopped for
# SECONDS (30). In that time the server is killed with -9 KILLS (2) times and started again without a database. Then
# PostgreSQL is started, and the calls continue for another 5 s. Checks at the end:
#
#   - The journal is empty.
#   - Every name that was answered 200 is in link_callbacks, once.
#   - Every call was answered within 3 s, as Kakao requires, except those in flight when the server was killed.
#
# Prints the counts and the latencies, and exits with 1 if a check fails.

# shellcheck disable=SC2154
read_numbers seconds=30 rate=2000 connections=64 kills=2 -- "$@"
install_requirements python3
# shellcheck source=scripts/servers.sh
. scripts/servers.sh
build push-server
start_postgres
# No push is sent.
export KAKAO_API_URL=http://127.0.0.1:1 KAKAO_ADMIN_KEY=admin-key-of-the-outage
export OPERATOR_KEY=operator-key-of-the-outage-0123456789 JOURNAL_DIRECTORY=$work/journal
start_server server
wait_ready server
port=$(url server)
port=${port##*:}
records() {
    curl -sf "http://127.0.0.1:$port/v1/status" -H "Authorization: Bearer $OPERATOR_KEY" | grep -oE '"journal":\{[^}]*' |
        grep -oE '"records":[0-9]+' | cut -d: -f2
}

say "$rate callbacks a second over $connections connections; PostgreSQL is stopped for $seconds s, the server is killed $kills times"
start client python3 scripts/proofs/outage.py "$port" "$rate" "$connections" "$KAKAO_ADMIN_KEY" "$work/accepted"
sleep 5
postgres stop --mode immediate
echo "PostgreSQL is stopped"
for number in $(seq "$kills"); do
    sleep $((seconds / (kills + 1)))
    echo "$(records) calls wait in the journal; the server is killed"
    crash server
    start_server server HTTP_PORT="$port"
    wait_until 10 "start $number of the server without a database" curl -sf "http://127.0.0.1:$port/readyz"
done
sleep $((seconds - kills * (seconds / (kills + 1))))
echo "$(records) calls wait in the journal; PostgreSQL is started"
postgres start --wait
begin=$SECONDS
sleep 5
kill -TERM "${processes[client]}"
wait "${processes[client]}" || fail "outage.py failed: $(<"$work/client.log")"
is_drained() { [ "$(records)" = 0 ]; }
wait_until 120 "the replay of the journal" is_drained
drained=$((SECONDS - begin))

read -r calls answered accepted refused broken median p99 slowest <"$work/client.out"
sql --command "COPY (SELECT key FROM link_callbacks ORDER BY key COLLATE \"C\") TO STDOUT" >"$work/stored"
sort "$work/accepted" >"$work/accepted.sorted"
lost=$(comm -23 "$work/accepted.sorted" "$work/stored" | wc -l)
twice=$(uniq --repeated "$work/stored" | wc -l)
cat <<TEXT

  calls                       $calls, answered $answered, interrupted by a kill $broken
  names answered 200          $accepted; stored $(wc -l <"$work/stored")
  other responses             $refused
  latency                     median $median ms, 99 % $p99 ms, slowest $slowest ms
  journal empty after         $drained s

  accepted but not stored     $lost
  stored twice                $twice
TEXT
[ "$accepted" -gt 0 ] || fail "no call was answered 200"
[ "$lost" = 0 ] || fail "$lost calls that were answered 200 are not stored"
[ "$twice" = 0 ] || fail "$twice calls are stored twice"
[ "$refused" = 0 ] || fail "$refused calls were not answered 200"
awk "BEGIN { exit !($slowest < 3000) }" || fail "a call was answered after $slowest ms, later than the 3 s that Kakao waits"
