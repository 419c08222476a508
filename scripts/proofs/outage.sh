# shellcheck shell=bash
# Outages and failovers of PostgreSQL lose nothing that was accepted, and the pushes say whom they may have reached twice.
#
# usage: scripts/prove outage [PART ...] [--seconds N] [--rate N] [--connections N] [--kills N]
#            [--users N] [--lag N] [--switchovers N]
#
#   journal        PostgreSQL is stopped, the server is killed, and its journal is damaged
#   asynchronous   the primary crashes and its asynchronous standby, which lags, is promoted
#   synchronous    the same with a synchronous standby
#   switchovers    primary and standby change their roles, and nothing is lost
#   unflushed      PostgreSQL crashes with synchronous_commit = off
#   failover       the last four
#
# Runs all of them unless some are named.
#
# journal: a server with a journal gets RATE (2,000) Link callbacks a second over CONNECTIONS (64) keep-alive connections. Every
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
# The other parts have two servers, which know both PostgreSQL, and the sandbox as Kakao. Two pushes to USERS (30,000) users
# each are in flight, one at_least_once and one at_most_once, while devices are registered, get new tokens, are withdrawn
# or erased with their users, and Link callbacks arrive. Once a quarter of the pushes is sent,
#
#   asynchronous   the process of the primary that sends to the standby is stopped for LAG (3) s. Then the primary crashes,
#                  and the standby is promoted: the commits of these seconds are lost.
#   synchronous    the same, but the primary acknowledges a commit only when the standby has applied it: none is lost.
#   switchovers    the primary is shut down, its standby is promoted, and the old primary becomes the standby of the new
#                  one: SWITCHOVERS (20) times, with two pushes to a fifth of the users each time.
#   unflushed      the process that writes the log of the only PostgreSQL is stopped for LAG s. Then PostgreSQL crashes and
#                  is started again: the commits of these seconds are lost, and the timeline stays the same.
#
# After the fault, the sender is started if it was stopped. Checks at the end:
#
#   - Each user who was reached twice by the push at_least_once is in a batch with may_repeat. The push at_most_once has
#     reached no user twice. Each user who was not reached is in a batch that is uncertain or failed.
#   - If commits were lost, the sender was stopped for that reason, and kakao_push_lost_commits_total is above 0. Otherwise
#     it was not, no user was reached twice, and the metric is 0.
#   - Each user's device is here and at Kakao as the last answered request left it: with the token that was registered
#     last, or neither here nor there.
#   - Every callback that was answered 200 is stored. None has the id of a user who was erased.
#
# Prints the counts and the latencies, and exits with 1 if a check fails.

# shellcheck disable=SC2119,SC2154,SC2329
failover=(asynchronous synchronous switchovers unflushed)
parts=()
while [[ $# -gt 0 && $1 != --* ]]; do
    case $1 in
        failover) parts+=("${failover[@]}") ;;
        journal | asynchronous | synchronous | switchovers | unflushed) parts+=("$1") ;;
        *) fail "there is no part $1; see --help" ;;
    esac
    shift
done
[ "${#parts[@]}" != 0 ] || parts=(journal "${failover[@]}")
read_numbers seconds=30 rate=2000 connections=64 kills=2 users=30000 lag=3 switchovers=20 -- "$@"
install_requirements python3
# shellcheck source=scripts/servers.sh
. scripts/servers.sh
# shellcheck source=scripts/cluster.sh
. scripts/cluster.sh
export OPERATOR_KEY=operator-key-of-the-outage-0123456789

# MARK: journal

records() {
    curl -sf "http://127.0.0.1:$port/v1/status" -H "Authorization: Bearer $OPERATOR_KEY" | grep -oE '"journal":\{[^}]*' |
        grep -oE '"records":[0-9]+' | cut -d: -f2
}

is_drained() { [ "$(records)" = 0 ]; }

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

journal() {
    local port begin drained number calls answered accepted refused broken median p99 slowest lost rejected twice
    start_postgres
    # No push is sent.
    export KAKAO_API_URL=http://127.0.0.1:1 KAKAO_ADMIN_KEY=admin-key-of-the-outage JOURNAL_DIRECTORY=$work/journal
    start_server server
    wait_ready server
    port=$(url server)
    port=${port##*:}
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
        wait_until 10 "start $number of the server without a database" curl -sf "http://127.0.0.1:$port/healthz"
    done
    sleep $((seconds - kills * (seconds / (kills + 1))))
    echo "$(records) calls wait in the journal; PostgreSQL is started"
    postgres start --wait
    begin=$SECONDS
    sleep 5
    kill -TERM "${processes[client]}"
    wait "${processes[client]}" || fail "outage.py failed: $(<"$work/client.log")"
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
    stop server
    postgres stop --mode immediate
}

# MARK: asynchronous, synchronous, switchovers, unflushed

# lose_commits NAME PROCESS: stops the process of a PostgreSQL that passes its log on, and kills PostgreSQL some seconds
# later, with all commits since.
lose_commits() {
    local process
    process=$(ask_node "$1" "SELECT pid FROM pg_stat_activity WHERE backend_type = '$2'")
    kill -STOP "$process"
    sleep "$lag"
    bytes=$(ask_node "$1" "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(),
        COALESCE((SELECT sent_lsn FROM pg_stat_replication), pg_current_wal_lsn()))")
    [ "$bytes" -gt 0 ] || fail "PostgreSQL has written nothing in $lag s"
    moment=$EPOCHREALTIME
    # PostgreSQL kills all of its processes when one of them is killed.
    kill -9 "$process"
    wait_until 60 "the crash of PostgreSQL" is_down "$1"
}
is_down() { [ ! -e "$work/$1/data/postmaster.pid" ]; }

fail_over() {
    lose_commits one walsender
    control_postgres two promote --wait
    echo "the primary has crashed; its standby, which lacks $bytes bytes of the log, is promoted"
}

crash_and_start() {
    lose_commits one walwriter
    control_postgres one start --wait
    echo "PostgreSQL has crashed with $bytes bytes of its log unwritten, and is started again"
}

# switch_over OLD NEW: shuts the primary OLD down, promotes its standby NEW, and makes OLD the standby.
switch_over() {
    await_standby "$1"
    control_postgres "$1" stop --mode fast --wait
    control_postgres "$2" promote --wait
    follow_postgres "$2" "$1"
    control_postgres "$1" start --wait
    await_standby "$2"
}

asynchronous() {
    say "asynchronous: the primary crashes, and its standby lags by $lag s"
    open_primary
    open_standby
    open_servers
    push_through asynchronous "$users" lost fail_over
    close_part lost
}

synchronous() {
    say "synchronous: the primary crashes, and its standby, for which commits wait, lags by $lag s"
    open_primary
    open_standby
    make_synchronous
    open_servers
    push_through synchronous "$users" kept fail_over
    close_part kept
}

switchovers() {
    local number old=one new=two
    say "switchovers: primary and standby change their roles $switchovers times"
    open_primary
    open_standby
    open_servers
    for number in $(seq "$switchovers"); do
        push_through "switchover-$number" $((users / 5)) kept switch_over "$old" "$new"
        read -r old new <<<"$new $old"
    done
    close_part kept
}

unflushed() {
    say "unflushed: PostgreSQL crashes with synchronous_commit = off, $lag s after it last wrote its log"
    open_primary synchronous_commit=off
    open_servers
    push_through unflushed "$users" lost crash_and_start
    close_part lost
}

# MARK: Main

build push-server kakao-sandbox
run_parts "${parts[@]}"
