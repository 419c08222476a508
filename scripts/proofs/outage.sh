# shellcheck shell=bash
# An outage of PostgreSQL and kills of the server lose no call from Kakao that was accepted, and a damaged journal costs one.
#
# usage: scripts/prove outage [--seconds N] [--rate N] [--connections N] [--kills N]
#
# A server with a journal gets RATE (2,000) Link callbacks a second over CONNECTIONS (64) keep-alive connections. Every
# third call repeats the name (X-Kakao-Resource-ID) of the previous one. PostgreSQL runs for 5 s and is then stopped for
# SECONDS (30). In that time the server is killed with -9 KILLS (2) times and started again without a database. After the
# first kill, a byte in the middle of its journal is changed. Then PostgreSQL is started, and the calls continue for another
# 5 s. Checks at the end:
#
#   - The journal is empty.
#   - Every name that was answered 200 is in link_callbacks, once, except that of the call in the damaged bytes.
#   - The damaged file is in rejected/ of the journal.
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

# Changes a byte of the call in the middle of the longest journal file, and prints the call's name.
damage_journal() {
    python3 - "$JOURNAL_DIRECTORY" <<'PYTHON'
import glob, json, sys

def records(data):
    """The offsets of the records: each begins at a multiple of 8 bytes, and has the length of its payload."""
    offset = 0
    while data[offset:offset + 4] == b"KPJ\x01":
        yield offset
        offset += (24 + int.from_bytes(data[offset + 4:offset + 8], "little") + 7) // 8 * 8

files = {path: open(path, "rb").read() for path in glob.glob(f"{sys.argv[1]}/*.journal")}
path = max(files, key=lambda path: len(list(records(files[path]))))
data = files[path]
offsets = list(records(data))
offset = offsets[len(offsets) // 2]
payload = data[offset + 24:offset + 24 + int.from_bytes(data[offset + 4:offset + 8], "little")]
with open(path, "r+b") as file:
    file.seek(offset + 30)
    file.write(bytes([data[offset + 30] ^ 1]))
print(json.loads(payload)["link_callback"]["resource_id"])
PYTHON
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
    [ "$number" != 1 ] || damage_journal >"$work/damaged"
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
touch "$work/damaged"
lost=$(comm -23 "$work/accepted.sorted" "$work/stored" | grep -cvxF -f "$work/damaged" || true)
rejected=$(find "$JOURNAL_DIRECTORY/rejected" -name '*.journal' | wc -l)
twice=$(uniq --repeated "$work/stored" | wc -l)
cat <<TEXT

  calls                       $calls, answered $answered, interrupted by a kill $broken
  names answered 200          $accepted; stored $(wc -l <"$work/stored")
  other responses             $refused
  latency                     median $median ms, 99 % $p99 ms, slowest $slowest ms
  journal empty after         $drained s

  damaged journal files       $rejected, with the call $(<"$work/damaged")
  accepted but not stored     $lost
  stored twice                $twice
TEXT
[ "$accepted" -gt 0 ] || fail "no call was answered 200"
[ "$rejected" = "$((kills > 0))" ] || fail "$rejected damaged files are in rejected/ of the journal"
[ "$lost" = 0 ] || fail "$lost calls that were answered 200 are not stored"
[ "$twice" = 0 ] || fail "$twice calls are stored twice"
[ "$refused" = 0 ] || fail "$refused calls were not answered 200"
awk "BEGIN { exit !($slowest < 3000) }" || fail "a call was answered after $slowest ms, later than the 3 s that Kakao waits"
