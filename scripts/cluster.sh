# shellcheck shell=bash
# Functions for proofs with a primary, its standby and two servers: they start them, send pushes, and compare what clients were
# answered with the database and with Kakao. Sourced after servers.sh, not executed.

# ask_node NAME QUERY: runs a query on one PostgreSQL, which may be a standby.
ask_node() { psql --quiet --no-align --tuples-only --host "$work/$1" --username postgres --command "$2"; }

drive() { python3 scripts/proofs/failover.py "$@"; }

# The parts whose checks have failed.
declare -A failed=()

# run_parts PART ...: runs the functions of these names one after another, and fails if a check of one has failed.
run_parts() {
    for part in "$@"; do "$part"; done
    [ "${#failed[@]}" = 0 ] || fail "${!failed[*]}: see above"
}

# MARK: PostgreSQL

# open_primary [SETTING=VALUE ...]: starts a PostgreSQL with these settings, `one`. Exports DATABASE_URL, with `two` as its second
# host.
open_primary() {
    create_postgres one restart_after_crash=off wal_buffers=64MB wal_keep_size=1GB "$@"
    control_postgres one start --wait
    export DATABASE_URL="postgres://postgres@/postgres?host=$work/one,$work/two&target_session_attrs=primary"
}

# Starts the standby, `two`, and waits until it follows `one`.
open_standby() {
    copy_postgres one two
    control_postgres two start --wait
    await_standby one
}

# await_standby NAME: waits until a standby has applied all that this PostgreSQL has written until now.
await_standby() {
    local position
    position=$(ask_node "$1" "SELECT pg_current_wal_lsn()")
    has_caught_up() { [ "$(ask_node "$1" "SELECT replay_lsn >= '$position' FROM pg_stat_replication")" = t ]; }
    wait_until 60 "the standby" has_caught_up "$1"
}

# Has `one` acknowledge a commit only when its standby has applied it.
make_synchronous() {
    # On the primary only: the promoted standby has no standby to wait for.
    ask_node one "ALTER SYSTEM SET synchronous_commit = remote_apply" >/dev/null
    ask_node one "ALTER SYSTEM SET synchronous_standby_names = '*'" >/dev/null
    ask_node one "SELECT pg_reload_conf()" >/dev/null
    is_synchronous() { [ "$(ask_node one "SELECT sync_state FROM pg_stat_replication")" = sync ]; }
    wait_until 60 "the synchronous standby" is_synchronous
}

# MARK: Servers and clients

# open_servers [USERS CALLBACKS]: starts the sandbox, two servers, and clients: USERS new users a second, each of whom makes three or
# four calls, and CALLBACKS Link callbacks a second.
open_servers() {
    export JOURNAL_DIRECTORY=$work/journal CALLBACKS_USER_ID_ARGUMENT=user
    # Few concurrent requests and slow responses, so that the pushes last longer than the fault.
    export KAKAO_MAX_CONCURRENT_REQUESTS=2
    start_sandbox
    fault '{"path":"/v1/push/send","kind":"latency","milliseconds":100}'
    migrate
    start_servers server-1 server-2
    SERVER_URL=$(url server-1)
    SERVER_URLS="$SERVER_URL $(url server-2)"
    export SERVER_URL SERVER_URLS SANDBOX_URL=$sandbox
    start traffic python3 scripts/proofs/failover.py traffic "$work/answered" "${1:-15}" "${2:-40}"
}

# push_through MARKER USERS lost|kept|announced FAULT [ARGUMENT ...]: has a fault happen while two pushes are in flight.
push_through() {
    drive send "$1" "$2" "$work/pushes" || fail "the pushes were not sent"
    "${@:4}"
    drive settle "$1" "$2" "$work/pushes" "$3" || failed[$part]=yes
}

# close_part lost|kept: ends the clients, compares what was answered with the database and Kakao, and stops everything.
close_part() {
    local name
    check_running traffic
    kill "${processes[traffic]}"
    wait "${processes[traffic]}" || fail "failover.py failed: $(<"$work/traffic.log")"
    unset "processes[traffic]"
    drive compare "$work/answered" "$1" "${moment:-0}" || failed[$part]=yes
    for name in server-1 server-2 sandbox; do stop "$name"; done
    for name in one two; do control_postgres "$name" stop --mode immediate || true; done
    rm -rf "$work/one" "$work/two" "$work/journal"
}
