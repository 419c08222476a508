# shellcheck shell=bash
# A PostgreSQL that hangs, fails over or stops to commit loses nothing that was accepted, and servers recover in time.
#
# usage: scripts/prove database [PART ...] [--users N] [--registrations N] [--callbacks N]
#            [--seconds N] [--slack FACTOR]
#
#   frozen          the host of the primary hangs (SIGSTOP), and its synchronous standby is promoted at once
#   promoted        the primary crashes, and its synchronous standby is promoted later
#   read_only       PostgreSQL accepts no changes (default_transaction_read_only)
#   not_committing  the synchronous standby is gone, so that commits hang
#   pgbouncer       PgBouncer in session mode, with its default settings, is killed; its transaction mode is refused
#   defaults        the role and the database have defaults that would change what statements mean, and all connections end
#
# Runs all of them unless some are named. Each part has two servers with a journal, PostgreSQL, and the sandbox as Kakao. Two pushes
# to USERS (30,000) users each are in flight, one at_least_once and one at_most_once. Meanwhile, CALLBACKS (100) Link callbacks arrive
# a second, and the devices of REGISTRATIONS (15) new users, some of which get new tokens, are withdrawn, or are erased with their
# users. The fault happens once a quarter of the pushes is sent. It lasts until both servers show it, and SECONDS (8) longer; in `frozen` and `defaults` the cure is immediate. In
# `frozen`, a third server starts while the first host of its URL hangs. Checks:
#
#   - /readyz and /v1/status of each server show the fault: unreachable, read_only, or not_committing and waiting for SyncRep.
#   - Every callback was answered 200, within 3 s. Each is stored once.
#   - Changes of devices were answered with success or 503. Each user's device is here and at Kakao as the last answered request
#     left it.
#   - Each user who was reached twice by the push at_least_once is in a batch with may_repeat. The push at_most_once has
#     reached no user twice. Each user who was not reached is in a batch that is uncertain or failed.
#   - Each server is ready again 10 s after the end of the fault, and accepts changes again 3 s after it; in `frozen` both have 10 s
#     from the begin of the fault. So has the server that starts then. FACTOR (1) multiplies these times and the 3 s of callbacks,
#     for a machine that is busy. With 0, they are printed and not checked.
#   - serve, migrate and doctor refuse PgBouncer in transaction mode, and name the setting.
#
# Prints the counts and the times, and exits with 1 if a check fails.

# shellcheck disable=SC2119,SC2154,SC2329
all=(frozen promoted read_only not_committing pgbouncer defaults)
parts=()
while [[ $# -gt 0 && $1 != --* ]]; do
    [[ " ${all[*]} " == *" $1 "* ]] || fail "there is no part $1; see --help"
    parts+=("$1")
    shift
done
[ "${#parts[@]}" != 0 ] || parts=("${all[@]}")
read_numbers users=30000 registrations=15 callbacks=100 seconds=8 slack=1 -- "$@"
install_requirements procps pgbouncer python3
# shellcheck source=scripts/servers.sh
. scripts/servers.sh
# shellcheck source=scripts/cluster.sh
. scripts/cluster.sh
export OPERATOR_KEY=operator-key-of-the-database-0123456789

# The seconds in which each server is ready, and in which it accepts changes of devices.
ready_limit=10
change_limit=3

# run_part LIMIT FAULT [ARGUMENT ...]: has a fault happen to a PostgreSQL and servers that are running, and checks what followed. LIMIT
# is the time in which changes are accepted again. FAULT sets $failed_at and $cured_at, the time from which the limits count.
run_part() {
    open_servers "$registrations" "$callbacks"
    push_through "$part" "$users" announced "${@:2}"
    # The pushes may have ended soon after the fault.
    sleep "$seconds"
    [ "$(type -t "close_$part")" != function ] || "close_$part"
    close_part kept
    python3 scripts/proofs/database.py times "$work/answered" "$failed_at" "$cured_at" "$ready_limit" "$1" "$slack" || failed[$part]=yes
}

# outage BREAK CURE STATE [EVENT]: runs the command BREAK, waits until both servers show this state of the database, and that they
# wait for EVENT, and for $seconds; then runs the command CURE.
outage() {
    failed_at=$EPOCHREALTIME
    # shellcheck disable=SC2086
    $1
    python3 scripts/proofs/database.py await "${@:3}" || fail "$part: the servers do not show the fault"
    sleep "$seconds"
    # shellcheck disable=SC2086
    $2
    cured_at=$EPOCHREALTIME
    echo "the outage has ended"
}

# MARK: frozen, promoted

open_pair() {
    open_primary
    open_standby
    make_synchronous
}

# freeze NAME: stops all processes of a PostgreSQL. Connections to it are still accepted, by the kernel.
freeze() {
    local postmaster process
    read -r postmaster <"$work/$1/data/postmaster.pid"
    kill -STOP "$postmaster"
    for process in "$postmaster" $(pgrep --parent "$postmaster"); do
        kill -STOP "$process"
        processes[frozen-$process]=$process
    done
}

# Ends the frozen processes before any of them writes again, as an operator who fences the host does.
close_frozen() {
    local name frozen=()
    for name in "${!processes[@]}"; do
        [[ $name == frozen-* ]] || continue
        frozen+=("${processes[$name]}")
        unset "processes[$name]"
    done
    kill -QUIT "${frozen[@]}" || true
    kill -CONT "${frozen[@]}" || true
}

freeze_and_promote() {
    local begin
    failed_at=$EPOCHREALTIME
    cured_at=$failed_at
    freeze one
    control_postgres two promote --wait
    echo "the primary is frozen, and its standby is promoted"
    begin=$SECONDS
    start_server server-3
    wait_ready server-3
    echo "a server that starts then is ready after $((SECONDS - begin)) s"
    [ "$slack" = 0 ] || [ $((SECONDS - begin)) -le $((ready_limit * slack)) ] || failed[$part]=yes
    stop server-3
}

frozen() {
    say "frozen: the primary hangs, and its synchronous standby is promoted"
    open_pair
    run_part "$ready_limit" freeze_and_promote
}

promoted() {
    say "promoted: the primary crashes, and its synchronous standby is promoted after $seconds s"
    open_pair
    run_part "$change_limit" outage "control_postgres one stop --mode immediate --wait" "control_postgres two promote --wait" unreachable
}

# MARK: read_only, not_committing

set_read_only() {
    ask_node one "ALTER SYSTEM SET default_transaction_read_only = $1"
    ask_node one "SELECT pg_reload_conf()" >/dev/null
}

read_only() {
    say "read_only: PostgreSQL is read-only for $seconds s"
    open_primary
    run_part "$change_limit" outage "set_read_only on" "set_read_only off" read_only
}

not_committing() {
    say "not_committing: commits wait for a synchronous standby that is gone for $seconds s"
    open_pair
    run_part "$change_limit" outage "control_postgres two stop --mode immediate --wait" "control_postgres two start --wait" \
        not_committing SyncRep
}

# MARK: pgbouncer

# Starts PgBouncer: the database `postgres` in its default mode, `transaction` in that mode.
open_pgbouncer() {
    make_postgres_folder pgbouncer
    echo '"postgres" ""' >"$work/pgbouncer/users"
    cat >"$work/pgbouncer/pgbouncer.ini" <<INI
[databases]
postgres = host=$work/one
transaction = host=$work/one dbname=postgres pool_mode=transaction
[pgbouncer]
listen_addr =
unix_socket_dir = $work/pgbouncer
auth_type = trust
auth_file = $work/pgbouncer/users
INI
    export DATABASE_URL="postgres://postgres@/postgres?host=$work/pgbouncer&port=6432"
    start_pgbouncer
}

start_pgbouncer() {
    local user=()
    # It refuses to run as root, as PostgreSQL does.
    [ "$(id -u)" != 0 ] || user=(--user postgres)
    start pgbouncer /usr/sbin/pgbouncer "${user[@]}" "$work/pgbouncer/pgbouncer.ini"
    wait_for pgbouncer test -S "$work/pgbouncer/.s.PGSQL.6432"
}

refuse_transaction_mode() {
    local command url=${DATABASE_URL/"/postgres?"//transaction?}
    for command in serve migrate doctor; do
        ! HTTP_PORT=0 DATABASE_URL=$url timeout 120 "$programs/push-server" "$command" >"$work/refusal" 2>&1 ||
            fail "$command did not refuse PgBouncer in transaction mode"
        grep -q 'set pool_mode = session for this database in PgBouncer' "$work/refusal" ||
            fail "$command does not name the setting of PgBouncer: $(tail -n 5 "$work/refusal")"
    done
    echo "serve, migrate and doctor refuse transaction mode"
}

kill_pgbouncer() {
    refuse_transaction_mode
    outage "crash pgbouncer" start_pgbouncer unreachable
}

pgbouncer() {
    say "pgbouncer: PgBouncer in session mode is killed, and started again after $seconds s"
    open_primary
    open_pgbouncer
    run_part "$change_limit" kill_pgbouncer
    stop pgbouncer
    rm -rf "$work/pgbouncer"
}

# MARK: defaults

# Values that would change what the statements mean, or end them. The tests of the sessions' parameters know all.
hostile=("default_transaction_isolation = serializable" "default_transaction_deferrable = on"
    "statement_timeout = 1000" "lock_timeout = 1" "idle_session_timeout = 1000" "idle_in_transaction_session_timeout = 1000"
    "DateStyle = 'German, DMY'" "IntervalStyle = sql_standard" "TimeZone = 'Asia/Kathmandu'" "extra_float_digits = -15"
    "bytea_output = escape" "standard_conforming_strings = off" "array_nulls = off" "transform_null_equals = on"
    "gin_fuzzy_search_limit = 1" "row_security = on" "client_min_messages = error" "exit_on_error = on"
    "plan_cache_mode = force_custom_plan")

# Creates a role and its database with these defaults, both named push.
open_push() {
    local value
    ask_node one "CREATE ROLE push LOGIN"
    ask_node one "CREATE DATABASE push OWNER push"
    for value in "${hostile[@]}"; do
        ask_node one "ALTER ROLE push SET $value"
        ask_node one "ALTER DATABASE push SET $value"
    done
    export DATABASE_URL="postgres://push@/push?host=$work/one"
}

# The comparison with the database expects the usual defaults.
close_defaults() {
    ask_node one "ALTER ROLE push RESET ALL"
    ask_node one "ALTER DATABASE push RESET ALL"
}

end_connections() {
    failed_at=$EPOCHREALTIME
    cured_at=$failed_at
    echo "$(ask_node one "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'push'") connections are ended"
}

defaults() {
    say "defaults: the role and the database have hostile defaults, and all connections end"
    open_primary
    open_push
    run_part "$change_limit" end_connections
}

# MARK: Main

build push-server kakao-sandbox
run_parts "${parts[@]}"
