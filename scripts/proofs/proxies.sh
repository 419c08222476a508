# shellcheck shell=bash
# Restarts lose no call of Kakao, behind nginx, haproxy or Caddy, nor with sockets that are kept; the proxies pass everything on.
#
# usage: scripts/prove proxies [nginx] [haproxy] [caddy] [sockets] [--calls N] [--rate N]
#
#   nginx, haproxy, caddy   The configuration of deploy/proxies, with other addresses, in front of two servers of the release build. First it
#                           is checked that
#                             - operators' paths are found at the internal name only,
#                             - the operators' page signs in over HTTPS, with its __Host- cookie,
#                             - servers know a client's address, and believe none that a client names itself,
#                             - 1.2 million users of an audience, an import and an export of 20,000 devices, and an image of
#                               images.max_bytes pass,
#                             - the events of a push arrive while it is sent.
#                           Then CALLS (1,600) Link callbacks arrive, RATE (100) a second, by GET and POST in turn and each over a connection of
#                           its own, while one server after the other is restarted (SIGTERM). Each must be answered 200 within the 3 s that
#                           Kakao waits, and be stored once. So must those that arrive while one server is killed and the other one is stopped
#                           for 3 s, but with Caddy, whose losses are only printed.
#   sockets                 The same without a proxy, with 1,000 calls and two restarts of one server, whose sockets another process keeps
#                           open, as systemd does: no call may be lost. Then without that, for comparison: the losses are only printed.
#
# Runs all four, unless some are named, in about three minutes. Proxies that are not installed are taken from Debian's packages into
# .local/proxies: the packages are not installed, because they would start their services. Prints the losses and the slowest responses, and
# exits with 1 if a check fails.

# shellcheck disable=SC2119,SC2154
parts=()
while [[ $# -gt 0 && $1 != --* ]]; do
    case $1 in
        nginx | haproxy | caddy | sockets) parts+=("$1") ;;
        *) fail "there is no part $1; see --help" ;;
    esac
    shift
done
[ "${#parts[@]}" != 0 ] || parts=(nginx haproxy caddy sockets)
read_numbers calls=1600 rate=100 -- "$@"
install_requirements python3 openssl
# shellcheck source=scripts/servers.sh
. scripts/servers.sh

# MARK: Programs of the proxies

declare -A proxies=()

# find_proxy NAME: sets ${proxies[NAME]} to the path of its program.
find_proxy() {
    local name=$1 path
    path=$(PATH=$PATH:/usr/sbin command -v "$name" || true)
    if [ -z "$path" ]; then
        # The libraries that haproxy needs, and no other program of this machine.
        [ "$name" != haproxy ] || install_missing liblua5.3-0 libopentracing-c-wrapper0
        path=$(find "$PWD/.local/proxies" -type f -path "*bin/$name" 2>/dev/null || true)
    fi
    if [ -z "$path" ]; then
        say "Downloading $name"
        mkdir -p .local/proxies
        (
            cd "$work" || exit
            apt-get download -qq "$name" 2>/dev/null || { as_root apt-get update -qq && apt-get download -qq "$name"; }
            dpkg-deb --extract "$name"_*.deb "$OLDPWD/.local/proxies"
        )
        path=$(find "$PWD/.local/proxies" -type f -path "*bin/$name")
    fi
    proxies[$name]=$path
}

# configure FILE NAME [TEXT=VALUE ...]: writes a configuration of deploy/proxies to $work/NAME, in which each TEXT is replaced by its value,
# and so are the addresses of the servers and the folder of the certificates.
configure() {
    local configuration file=$1 name=$2 value
    configuration=$(<"deploy/proxies/$file")
    shift 2
    for value in "$@" 10.0.0.11:8080="127.0.0.1:${port[server-1]}" 10.0.0.12:8080="127.0.0.1:${port[server-2]}" \
        10.0.0.11:8081="127.0.0.1:${operator_port[server-1]}" 10.0.0.12:8081="127.0.0.1:${operator_port[server-2]}" \
        /etc/ssl/push="$work/tls"; do
        [[ $configuration == *"${value%%=*}"* ]] || fail "deploy/proxies/$file has no ${value%%=*}"
        configuration=${configuration//"${value%%=*}"/"${value#*=}"}
    done
    printf '%s\n' "$configuration" >"$work/$name"
}

start_nginx() {
    local kind temporary=
    # Relative to the folder of -p.
    for kind in client_body proxy fastcgi uwsgi scgi; do temporary+="${kind}_temp_path temporary; "; done
    configure nginx.conf nginx.conf "listen 443"="listen 127.0.0.1:$public" 10.0.0.10:8443="127.0.0.1:$internal" "pid /run"="pid $work" \
        /var/log/nginx="$work" "http {"="daemon off; http { $temporary"
    start nginx "${proxies[nginx]}" -p "$work" -c "$work/nginx.conf" -e "$work/nginx.error.log"
}

start_haproxy() {
    configure haproxy.cfg haproxy.cfg "bind :443"="bind 127.0.0.1:$public" 10.0.0.10:8443="127.0.0.1:$internal" \
        /dev/log="stderr format raw" "    user haproxy"= "    group haproxy"= "maxconn 20000"="maxconn 2000"
    start haproxy "${proxies[haproxy]}" -db -f "$work/haproxy.cfg"
}

start_caddy() {
    configure Caddyfile Caddyfile $'\npush.example.com {'=$'\n'"push.example.com:$public {"$'\n'"bind 127.0.0.1" \
        example.com:8443="example.com:$internal" "bind 10.0.0.10"="bind 127.0.0.1"
    CADDY_ADMIN="127.0.0.1:$(free_port)" HOME=$work XDG_DATA_HOME=$work/caddy XDG_CONFIG_HOME=$work/caddy \
        start caddy "${proxies[caddy]}" run --adapter caddyfile --config "$work/Caddyfile"
}

# MARK: Servers

declare -A port=() operator_port=()
# http.drain_seconds: the default.
drain=5

# Chooses the ports of a server once, so that it has the same ones after a restart.
choose_ports() {
    port[$1]=$(free_port)
    operator_port[$1]=$(free_port)
}

# serve NAME [WRAPPER ...]: starts a server on its ports.
serve() {
    start_server "$1" HTTP_PORT="${port[$1]}" HTTP_OPERATOR_PORT="${operator_port[$1]}" HTTP_DRAIN_SECONDS="$drain" \
        JOURNAL_DIRECTORY="$work/journal-$1" LOG_LEVEL=info "${@:2}"
}

answers() { curl -sf --max-time 2 "http://127.0.0.1:${port[$1]}/readyz"; }
wait_for_server() { wait_until 30 "$1 to be ready" answers "$1"; }

# restart NAME: restarts a server as a deployment does: SIGTERM, and the next process once this one has exited.
restart() {
    local begin=$EPOCHREALTIME
    check_running "$1"
    kill "${processes[$1]}"
    check_draining "$1"
    wait "${processes[$1]}" || fail "$1 did not shut down cleanly: $(tail -n 3 "$work/$1.log")"
    serve "$1"
    wait_for_server "$1"
    report_restart "$1" "$begin"
}

# check_draining NAME: fails if a server that stops says so neither to proxies nor to clients.
check_draining() {
    local response
    sleep 0.5
    response=$(curl -si --max-time 2 "http://127.0.0.1:${port[$1]}/readyz") || fail "$1 does not respond after SIGTERM"
    [[ $response == *" 503 "* ]] || fail "/readyz of $1 is not 503 after SIGTERM: $response"
    grep -qi '^connection: close' <<<"$response" || fail "$1 keeps connections open after SIGTERM: $response"
}

report_restart() { awk "BEGIN { printf \"  %s restarted in %.1f s\n\", \"$1\", $EPOCHREALTIME - $2 }"; }

# MARK: Calls of Kakao

# call_during PORT NAME COUNT COMMAND [ARGUMENT ...]: makes calls while the command runs, and at least COUNT. Sets $lost, the number of calls that
# were not answered 200 or are not stored.
call_during() {
    local made twice median slowest reasons
    start calls python3 scripts/proofs/proxies.py calls "$1" "$2" "$3" "$rate"
    sleep 1
    "${@:4}"
    kill "${processes[calls]}"
    wait "${processes[calls]}" || fail "proxies.py failed: $(<"$work/calls.log")"
    unset "processes[calls]"
    read -r made lost twice median slowest reasons <"$work/calls.out"
    echo "  calls                       $made, $lost lost, $twice stored twice; median $median ms, slowest $slowest ms; failed: $reasons"
    [ "$twice" = 0 ] || fail "$twice calls are stored twice"
}

# MARK: nginx, haproxy, caddy

# Waits until a proxy has noticed that a server is ready: /readyz of another event loop is up to a second old, and the check as well.
let_proxy_notice() { sleep 3; }

both_answer() {
    curl -sf --max-time 2 --cacert "$work/tls/all" --resolve "push.example.com:$public:127.0.0.1" \
        --resolve "push.internal.example.com:$internal:127.0.0.1" "https://push.example.com:$public/readyz" -o /dev/null \
        "https://push.internal.example.com:$internal/readyz" -o /dev/null
}

restart_both() {
    restart server-1
    let_proxy_notice
    restart server-2
}

# Kills a server, and stops the other one for a while: neither says so before.
crash_both() {
    crash server-1
    echo "  server-1 is killed"
    sleep 2
    serve server-1
    wait_for_server server-1
    let_proxy_notice
    kill -STOP "${processes[server-2]}"
    echo "  server-2 is stopped for 3 s"
    sleep 3
    kill -CONT "${processes[server-2]}"
}

# prove_proxy NAME: checks one proxy.
prove_proxy() {
    local public internal server
    say "$1: $("${proxies[$1]}" "${version_option[$1]}" 2>&1 | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)"
    public=$(free_port)
    internal=$(free_port)
    for server in server-1 server-2; do
        choose_ports "$server"
        serve "$server"
    done
    for server in server-1 server-2; do wait_for_server "$server"; done
    "start_$1"
    wait_for "$1" both_answer
    let_proxy_notice
    python3 scripts/proofs/proxies.py uses "$public" "$internal" "$work/server-1.log" || failed+=("$1")
    call_during "$public" push.example.com "$calls" restart_both
    [ "$lost" = 0 ] || failed+=("$1 loses calls in restarts")
    call_during "$public" push.example.com "$rate" crash_both
    # Caddy repeats no POST (docs/proxies.md).
    [ "$lost" = 0 ] || [ "$1" = caddy ] || failed+=("$1 loses calls in crashes")
    stop "$1"
    for server in server-1 server-2; do crash "$server"; done
    sql --command "TRUNCATE devices" >/dev/null
}
declare -A version_option=([nginx]=-v [haproxy]=-v [caddy]=version)

# MARK: sockets

# Restarts the server whose sockets proxies.py keeps, twice.
restart_kept() {
    local process begin
    for _ in 1 2; do
        begin=$EPOCHREALTIME
        process=$(<"$work/kept.process")
        kill "$process"
        check_draining kept
        # shellcheck disable=SC2317
        is_next() { [ "$(<"$work/kept.process")" != "$process" ]; }
        wait_until 30 "the next process" is_next
        wait_for_server kept
        report_restart kept "$begin"
    done
}

restart_twice() {
    restart plain
    restart plain
}

prove_sockets() {
    # No proxy has to notice anything.
    drain=1
    say "sockets: kept over the restarts"
    choose_ports kept
    serve kept python3 scripts/proofs/proxies.py sockets "$work/kept.process" "${port[kept]}" "${operator_port[kept]}" --
    wait_for_server kept
    call_during "${port[kept]}" - $((calls * 5 / 8)) restart_kept
    [ "$lost" = 0 ] || failed+=("a restart with kept sockets loses calls")
    stop kept

    say "sockets: opened by each process"
    choose_ports plain
    serve plain
    wait_for_server plain
    call_during "${port[plain]}" - $((calls * 5 / 8)) restart_twice
    crash plain
}

# MARK: Main

failed=()
for part in "${parts[@]}"; do
    [ "$part" = sockets ] || find_proxy "$part"
done
build --release push-server kakao-sandbox
start_postgres
start_sandbox
mkdir "$work/tls"
for name in push.example.com push.internal.example.com; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj "/CN=$name" -addext "subjectAltName=DNS:$name" \
        -keyout "$work/tls/$name.pem.key" -out "$work/tls/$name.pem" 2>/dev/null
done
cat "$work"/tls/*.pem >"$work/tls/all"
export PROXY_CERTIFICATE=$work/tls/all OPERATOR_KEY=operator-key-of-the-proxies-0123456789 HTTP_TRUSTED_PROXIES=127.0.0.1
export SHARING_APP_KEY_CALLS=true SHARING_KA_HEADER="sdk/1.0 os/ios-17.0 origin/com.example.app" KAKAO_NATIVE_APP_KEY=sandbox-native-app-key
export KAKAO_APP_ID=123456 KAKAO_AUTH_URL=$sandbox
migrate
for part in "${parts[@]}"; do
    if [ "$part" = sockets ]; then prove_sockets; else prove_proxy "$part"; fi
done
[ "${#failed[@]}" = 0 ] || fail "$(printf '%s; ' "${failed[@]}")see above"
