# shellcheck shell=bash
# Functions for proofs and benchmarks: they build the programs of this package, and run PostgreSQL, the sandbox and any
# number of servers, which end with the script. Sourced after lib.sh, not executed.

# A decimal point in numbers, and one order of texts, regardless of the user's locale.
export LC_ALL=C
# The folder of the logs, of PostgreSQL and of everything else that ends with the script.
work=$(mktemp -d)
# PostgreSQL runs as another user if the script runs as root.
chmod 755 "$work"
# The process ids of everything that was started, by name.
declare -A processes=()

# Ends all processes, those that are stopped (SIGSTOP) included, and deletes their files.
end() {
    # Hides the shell's messages about killed processes.
    exec 2>/dev/null
    kill "${processes[@]}" || true
    kill -CONT "${processes[@]}" || true
    # A server exits within 10 s.
    for _ in {1..120}; do
        kill -0 "${processes[@]}" || break
        sleep 0.1
    done
    kill -9 "${processes[@]}" || true
    local data
    for data in "$work"/*/data; do
        control_postgres "$(basename "$(dirname "$data")")" stop --mode immediate || true
    done
    wait
    # The database of push-server dev is elsewhere if its user cannot access this folder.
    [ ! -L "$work/dev/postgres" ] || rm -rf "$(readlink "$work/dev/postgres")"
    rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM

# MARK: Processes

# start NAME COMMAND [ARGUMENT ...]: runs the command in the background until the script ends, with output in
# $work/NAME.out and $work/NAME.log.
start() {
    local name=$1
    shift
    # Nobody reads what an earlier process of the name has written: the shell in the background may truncate it later.
    : >"$work/$name.out"
    "$@" >"$work/$name.out" 2>"$work/$name.log" &
    processes[$name]=$!
}

# wait_for NAME COMMAND [ARGUMENT ...]: waits until the command succeeds, which shows that the process NAME is up.
wait_for() {
    local name=$1
    shift
    # shellcheck disable=SC2317
    is_up_or_dead() { "$@" || ! kill -0 "${processes[$name]}"; }
    wait_until 120 "$name to start" is_up_or_dead "$@"
    check_running "$name"
}

# check_running NAME ...: fails if one of the processes has exited by itself.
check_running() {
    local name
    for name in "$@"; do
        kill -0 "${processes[$name]}" 2>/dev/null ||
            fail "$name exited: $(tail --quiet --lines 5 "$work/$name.log" "$work/$name.out")"
    done
}

# stop NAME: ends a process, and waits for it.
stop() {
    kill "${processes[$1]}" 2>/dev/null || true
    wait "${processes[$1]}" 2>/dev/null || true
    unset "processes[$1]"
}

# crash NAME: kills a process (SIGKILL), which must not have exited by itself.
crash() {
    check_running "$1"
    kill -9 "${processes[$1]}"
    wait "${processes[$1]}" 2>/dev/null || true
    unset "processes[$1]"
}

# Prints a free port of 127.0.0.1.
free_port() {
    local port
    # Below the kernel's range for ports of outgoing connections.
    for port in $(shuf --input-range 20000-29999 --head-count 100); do
        (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    printf '%s' "$port"
}

# MARK: Programs

# build [--release] PRODUCT ...: builds programs of the package in this folder, with --release as they are released. Sets
# $programs, their folder.
build() {
    if [ "$1" = --release ]; then
        programs=$(build_release "${@:2}")
        return
    fi
    local product
    for product in "$@"; do
        swift build --product "$product" >&2
    done
    programs=$(swift build --show-bin-path)
}

# check_out COMMIT: checks a commit out in a clone of this repository, and sets $checkout to the folder of the clone.
check_out() {
    checkout=$PWD/.build-compare/source
    [ -e "$checkout/.git" ] || git clone --quiet --shared . "$checkout"
    git -C "$checkout" fetch --quiet --tags origin
    git -C "$checkout" checkout --quiet --detach "$1"
}

# MARK: PostgreSQL

# PostgreSQL refuses to run as root.
as_postgres() {
    if [ "$(id -u)" = 0 ]; then runuser --user postgres -- "$@"; else "$@"; fi
}

# create_postgres NAME [SETTING=VALUE ...]: creates a private PostgreSQL in $work/NAME, which is reached through a socket in
# this folder only.
create_postgres() {
    make_postgres_folder "$1"
    run_postgres initdb --pgdata "$work/$1/data" --auth trust --username postgres --encoding UTF8 --no-locale --no-sync \
        >/dev/null
    configure_postgres "$1" max_connections=200 "${@:2}"
}

# copy_postgres FROM NAME: creates a standby in $work/NAME as a copy of a running PostgreSQL, which it follows once it is
# started.
copy_postgres() {
    make_postgres_folder "$2"
    run_postgres pg_basebackup --pgdata "$work/$2/data" --host "$work/$1" --username postgres --checkpoint fast --no-sync
    follow_postgres "$1" "$2"
}

# follow_postgres FROM NAME: makes a stopped PostgreSQL a standby of another one.
follow_postgres() {
    configure_postgres "$2" "primary_conninfo='host=$work/$1 user=postgres'"
    as_postgres touch "$work/$2/data/standby.signal"
}

# configure_postgres NAME [SETTING=VALUE ...]: adds settings, which apply from the next start.
configure_postgres() {
    printf '%s\n' "listen_addresses=''" "unix_socket_directories='$work/$1'" "${@:2}" >>"$work/$1/data/postgresql.conf"
}

make_postgres_folder() {
    mkdir "$work/$1"
    [ "$(id -u)" != 0 ] || chown postgres "$work/$1"
}

# run_postgres PROGRAM [ARGUMENT ...]: runs a program of PostgreSQL.
run_postgres() { (cd / && as_postgres "$(pg_config --bindir)/$1" "${@:2}"); }

# control_postgres NAME start|stop|restart|promote [OPTION ...]: runs pg_ctl.
control_postgres() {
    run_postgres pg_ctl --pgdata "$work/$1/data" --log "$work/$1/log" --silent "${@:2}" >/dev/null 2>&1
}

# start_postgres [SETTING=VALUE ...]: creates and starts the private PostgreSQL of a script that needs only one. Exports DATABASE_URL.
start_postgres() {
    create_postgres postgres "$@"
    postgres start --wait
    export DATABASE_URL="postgres://postgres@/postgres?host=$work/postgres"
}

# postgres start|stop|restart [OPTION ...]: runs pg_ctl.
postgres() { control_postgres postgres "$@"; }

# sql [OPTION ...]: runs psql on the server's database.
sql() { psql --quiet --no-align --tuples-only "$DATABASE_URL" "$@"; }

# MARK: Kakao and servers

# start_sandbox [OPTION ...]: starts the sandbox. Sets $sandbox, its URL, which servers call in place of Kakao's.
start_sandbox() {
    # Overrides the caller's settings.
    export KAKAO_ADMIN_KEY=sandbox-admin-key
    start sandbox "$programs/kakao-sandbox" --port 0 --log-level error "$@"
    wait_for sandbox grep -q ready "$work/sandbox.out"
    sandbox=$(grep -o 'http://[^ ]*' "$work/sandbox.out")
    export KAKAO_API_URL=$sandbox
}

# fault JSON: has the sandbox inject a fault.
fault() { curl -sf -d "$1" "$sandbox/sandbox/faults" >/dev/null; }

# Creates the tables in the database.
migrate() {
    "$programs/push-server" migrate >"$work/migrate" 2>&1 || fail "push-server migrate failed: $(tail -n 5 "$work/migrate")"
}

# start_server NAME [SETTING=VALUE ...] [WRAPPER ...]: starts a server with these settings and those of the environment, on
# a free port unless HTTP_PORT is one of them. WRAPPER is a command that runs a command, such as `prlimit --nofile=256`.
start_server() { start "$1" env HTTP_PORT=0 HTTP_DRAIN_SECONDS=0 LOG_LEVEL=notice "${@:2}" "$programs/push-server" serve; }

# start_servers NAME ...: starts several servers, and waits until they are ready.
start_servers() {
    local name
    for name in "$@"; do start_server "$name"; done
    for name in "$@"; do wait_ready "$name"; done
}

is_ready() { grep -q Ready "$work/$1.log" "$work/$1.out"; }
wait_ready() { wait_for "$1" is_ready "$1"; }

# url NAME: prints the URL of a server, and nothing while it starts.
url() {
    awk 'match($0, /127\.0\.0\.1:[0-9]+/) {print "http://" substr($0, RSTART, RLENGTH); exit}' "$work/$1.log" "$work/$1.out"
}

# Starts push-server dev: a server with its own PostgreSQL and sandbox, over TLS. Sets the variables of its dev.env.
start_dev() {
    start dev "$programs/push-server" dev --port 0 --directory "$work/dev"
    wait_for dev test -f "$work/dev/dev.env"
    # The settings in the file would reach the servers that a script starts beside this one.
    local name
    for name in SERVER_URL PUBLIC_URL SANDBOX_URL SANDBOX_CERTIFICATE OPERATOR_KEY KAKAO_ADMIN_KEY DATABASE_URL; do
        # shellcheck disable=SC1091
        export "$name=$(. "$work/dev/dev.env" && printf %s "${!name}")"
    done
}
