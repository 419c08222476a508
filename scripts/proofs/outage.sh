#!/usr/bin/env bash
# Stops PostgreSQL while Kakao calls, kills the server during the outage, and checks that every accepted call is stored
# once.
#
# usage: scripts/outage [--seconds N] [--rate N] [--connections N] [--kills N]
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
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

seconds=30
rate=2000
connections=64
kills=2
while [ $# -gt 0 ]; do
    case $1 in
        --seconds) seconds=${2:?a number} ;;
        --rate) rate=${2:?a number} ;;
        --connections) connections=${2:?a number} ;;
        --kills) kills=${2:?a number} ;;
        -h | --help)
            print_help
            exit
            ;;
        *) fail "unknown argument $1; see --help" ;;
    esac
    shift 2
done

install_requirements python3
swift build --product push-server >/dev/null
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
CONF
postgres start --wait
sql() { psql --quiet --no-align --tuples-only --host "$data" --username postgres postgres "$@"; }

cat >"$work/client.py" <<'PYTHON'
"""Calls a server as Kakao does, at a constant rate over keep-alive connections, until SIGTERM.

Writes the names answered 200 to a file, and prints the counts and latencies.
"""
import asyncio, signal, sys, time

port, rate, connections, key, output = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
accepted, refused, broken, latencies = set(), 0, 0, []
calls = 0
stopping = False


def name(number):
    # 0 1 1 2 3 3: a third of the names are duplicates.
    return f"call-{number // 3 * 2 + (number % 3 + 1) // 2}"


async def call(due):
    global calls, refused, broken
    reader = writer = None
    while not stopping:
        await due.acquire()
        number, calls = calls, calls + 1
        begin = None
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            begin = time.monotonic()
            writer.write(
                f"GET /kakao/link/callback?CHAT_TYPE=MemoChat&HASH_CHAT_ID=147bp3dASTS0&TEMPLATE_ID=3135&product_id={number} HTTP/1.1\r\n"
                f"Host: localhost\r\nAuthorization: KakaoAK {key}\r\nX-Kakao-Resource-ID: {name(number)}\r\n\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if length:
                await reader.readexactly(int(length[0].split(b":")[1]))
            latencies.append(time.monotonic() - begin)
            if head.startswith(b"HTTP/1.1 200"):
                accepted.add(name(number))
            else:
                refused += 1
        except (OSError, asyncio.IncompleteReadError):
            if begin is not None:
                broken += 1
            if writer is not None:
                writer.close()
            reader = writer = None
            await asyncio.sleep(0.05)


async def main():
    global stopping

    def stop():
        global stopping
        stopping = True

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    due = asyncio.Semaphore(0)
    callers = [asyncio.create_task(call(due)) for _ in range(connections)]
    begin, issued = time.monotonic(), 0
    while not stopping:
        await asyncio.sleep(0.005)
        # Calls that were due while the server was down are skipped, not made later.
        while issued < (time.monotonic() - begin) * rate:
            issued += 1
            if due._value < connections:
                due.release()
    for _ in callers:
        due.release()
    await asyncio.gather(*callers)
    latencies.sort()
    with open(output, "w") as file:
        file.writelines(f"{text}\n" for text in sorted(accepted))
    last = len(latencies) - 1
    print(calls, len(latencies), len(accepted), refused, broken,
          *(f"{latencies[int(last * part)] * 1000:.1f}" for part in (0.5, 0.99, 1)))


asyncio.run(main())
PYTHON

export DATABASE_URL="postgres://postgres@/postgres?host=$data" OPERATOR_KEY=operator-key-of-the-outage-0123456789
export KAKAO_ADMIN_KEY=admin-key-of-the-outage HTTP_PORT=0 LOG_LEVEL=notice JOURNAL_DIRECTORY=$work/journal
# No push is sent in this test.
export KAKAO_API_URL=http://127.0.0.1:1
serve() {
    "$programs/push-server" serve >>"$work/server" 2>&1 &
    processes[server]=$!
}
port() { grep -ohE '127\.0\.0\.1:[0-9]+' "$work/server" | head -1 | cut -d: -f2; }
status() { curl -sf "http://127.0.0.1:$HTTP_PORT/v1/status" -H "Authorization: Bearer $OPERATOR_KEY"; }
records() { status | grep -oE '"journal":\{[^}]*' | grep -oE '"records":[0-9]+' | cut -d: -f2; }
is_ready() { curl -sf "http://127.0.0.1:$HTTP_PORT/readyz"; }
serve
wait_until 30 "the server to start" grep -q Ready "$work/server"
HTTP_PORT=$(port)
export HTTP_PORT

say "$rate callbacks a second over $connections connections; PostgreSQL is stopped for $seconds s, the server is killed $kills times"
python3 "$work/client.py" "$HTTP_PORT" "$rate" "$connections" "$KAKAO_ADMIN_KEY" "$work/accepted" >"$work/counts" &
processes[client]=$!
sleep 5
postgres stop --mode immediate
echo "PostgreSQL is stopped"
for number in $(seq "$kills"); do
    sleep $((seconds / (kills + 1)))
    echo "$(records) calls wait in the journal; the server is killed"
    kill -9 "${processes[server]}"
    wait "${processes[server]}" 2>/dev/null || true
    serve
    wait_until 10 "start $number of the server without a database" is_ready
done
sleep $((seconds - kills * (seconds / (kills + 1))))
echo "$(records) calls wait in the journal; PostgreSQL is started"
postgres start --wait
begin=$SECONDS
sleep 5
kill -TERM "${processes[client]}"
wait "${processes[client]}" || fail "client.py failed"
is_drained() { [ "$(records)" = 0 ]; }
wait_until 120 "the replay of the journal" is_drained
drained=$((SECONDS - begin))

read -r calls answered accepted refused broken median p99 slowest <"$work/counts"
sql --command "COPY (SELECT key FROM link_callbacks ORDER BY key COLLATE \"C\") TO STDOUT" >"$work/stored"
LC_ALL=C sort "$work/accepted" >"$work/accepted.sorted"
lost=$(LC_ALL=C comm -23 "$work/accepted.sorted" "$work/stored" | wc -l)
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
