# shellcheck shell=bash
# Functions shared by the benchmarks of this folder and by scripts/compare. Sourced, not executed. drive and connect need
# $seconds, which the scripts set.
# shellcheck disable=SC2154

# shellcheck source=scripts/servers.sh
. scripts/servers.sh

# Creates a certificate for localhost, $work/certificate.pem, that is its own authority, and its key $work/key.pem.
create_certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost -keyout "$work/key.pem" -out "$work/certificate.pem" 2>/dev/null ||
        fail "openssl req failed"
}

# Builds the programs and starts the whole server with its own database and sandbox. Sets the variables of its dev.env, and
# $resident: the memory of an idle server in KiB.
start_push_server() {
    build --release kakao-sandbox push-server
    start_dev
    wait_for dev curl -sf "$SERVER_URL/readyz"
    # Measures serve, as deployed, on the same database: dev also manages the database and the sandbox. The first
    # requests open connections and prepare statements; a second later the server is idle.
    start_server idle LOG_LEVEL=info KAKAO_API_URL="$SANDBOX_URL" KAKAO_CA_CERTIFICATE_FILE="$SANDBOX_CERTIFICATE"
    wait_ready idle
    curl -sf "$(url idle)/readyz" >/dev/null
    sleep 1
    # shellcheck disable=SC2034
    resident=$(awk '/^VmRSS/ {print $2}' "/proc/${processes[idle]}/status")
    kill "${processes[idle]}"
    wait "${processes[idle]}" || fail "serve did not shut down cleanly: $(tail -n 3 "$work/idle.log")"
    unset "processes[idle]"
}

# start_nginx NAME CONFIGURATION [KEY=VALUE ...]: starts nginx with the upstreams and servers of a file of Benchmarks/peers, in
# which each @KEY@ is replaced by its value. Paths are relative to $work.
start_nginx() {
    local name=$1 configuration
    configuration=$(<"Benchmarks/peers/$2.conf")
    shift 2
    for value in "$@"; do configuration=${configuration//"@${value%%=*}@"/${value#*=}}; done
    cat >"$work/$name.conf" <<NGINX
daemon off;
worker_processes auto;
pid $name.pid;
error_log $name.error.log;
events {
    worker_connections 1024;
}
http {
server_tokens off;
access_log off;
# Never closes a connection because of its number of requests.
keepalive_requests 100000000;
client_body_temp_path temporary;
proxy_temp_path temporary;
fastcgi_temp_path temporary;
uwsgi_temp_path temporary;
scgi_temp_path temporary;
$configuration
}
NGINX
    start "$name" nginx -p "$work" -c "$work/$name.conf" -e "$work/$name.error.log"
}

# cpu_ticks NAME: prints the CPU time, in clock ticks, of the process NAME and its worker processes.
cpu_ticks() {
    local process=${processes[$1]} each
    for each in "$process" $(pgrep --parent "$process"); do
        # Child processes of another program, such as a database or a sandbox, are not workers.
        [ "$(<"/proc/$each/comm")" != "$(<"/proc/$process/comm")" ] || sed 's/.*) //' "/proc/$each/stat"
    done | awk '{ticks += $12 + $13} END {print ticks + 0}'
}

# drive SERIES NAME [ARGUMENT ...]: runs wrk once against the process NAME. Adds a row to the series: requests/s, p50
# and p99 in ms, and the server's CPU time for each request in µs.
drive() {
    local series=$1 name=$2 before
    shift 2
    before=$(cpu_ticks "$name")
    wrk --threads 1 --connections 64 --duration "${seconds}s" --latency "$@" >"$work/wrk"
    if grep -E 'Non-2xx|Socket errors|^failed [1-9]' "$work/wrk"; then fail "$series: requests failed"; fi
    awk -v ticks="$(($(cpu_ticks "$name") - before))" -v hertz="$(getconf CLK_TCK)" '
        function milliseconds(time) {
            if (time ~ /us$/) return time / 1000
            if (time ~ /ms$/) return time + 0
            if (time ~ /s$/) return time * 1000
            return time * 60000
        }
        $1 == "50%" {p50 = milliseconds($2)}
        $1 == "99%" {p99 = milliseconds($2)}
        $2 == "requests" {requests = $1}
        $1 == "Requests/sec:" {printf "%d %.2f %.2f %.2f\n", $2, p50, p99, ticks * 1000000 / hertz / requests}
    ' "$work/wrk" >>"$work/$series.series"
}

# random_requests FILE: prints a script for wrk that sends the requests for random lines of a file. They are created in advance,
# so that wrk only has to send them. The Lua function `format`, which creates the request for a line's number and word, is read
# from the standard input.
random_requests() {
    cat
    cat <<LUA
local requests = {}
function init()
    math.randomseed(os.time())
    for line in io.lines("$1") do
        requests[#requests + 1] = format(line:match("(%d+) ?(%w*)"))
    end
end
function request()
    return requests[math.random(#requests)]
end
LUA
    reported_failures
}

# Prints the end of a script for wrk, which reports the number of failed requests to drive.
reported_failures() {
    cat <<'LUA'
function done(summary)
    local errors = summary.errors
    io.write("failed ", errors.connect + errors.read + errors.write + errors.status + errors.timeout, "\n")
end
LUA
}

# pgbench_rate SERIES SCRIPT [CLIENTS]: runs pgbench once with a script of $work, and adds its transactions/s to the series.
pgbench_rate() {
    pgbench --no-vacuum --client "${3:-64}" --jobs 1 --time "$seconds" --protocol prepared --file "$work/$2.sql" "$DATABASE_URL" \
        2>/dev/null | awk '/^tps/ {printf "%d\n", $3}' >>"$work/$1.series"
}

# column SERIES N: prints column N of a series, one line a round.
column() { awk -v n="$2" '{print $n}' "$work/$1.series"; }
# median SERIES N: prints the median of column N.
median() { column "$1" "$2" | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
# last SERIES N: prints the value of column N in the latest round.
last() { column "$1" "$2" | tail -1; }
# ratio A B: prints A / B with two decimals.
ratio() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.2f", a / b}'; }
# ratios SERIES PEER COLUMN [POWER]: prints the median of the rounds' ratios of two series, and its interval: all ratios but the lowest
# and the highest. POWER is -1 for what is better if it is smaller.
ratios() {
    paste -d' ' <(column "$1" "$3") <(column "$2" "$3") | awk -v power="${4:-1}" '{printf "%.4f\n", ($1 / $2) ^ power}' | sort -n |
        awk '
            {v[NR] = $1}
            END {
                low = NR > 2 ? 2 : 1
                printf "%.3f (%.3f to %.3f)", v[int((NR + 1) / 2)], v[low], v[NR + 1 - low]
            }'
}
# against SERIES PEER: prints the ratio of the medians of two series, and the medians.
against() { echo "$(ratio "$(median "$1" 1)" "$(median "$2" 1)") ($(median "$1" 1)/s to $(median "$2" 1)/s)"; }

# connect SERIES ADDRESS: runs four openssl s_time in parallel, and adds their new connections/s to the series.
#
# Each connection is a full TLS 1.3 handshake and one GET. wrk with Connection: close is unsuitable, since it resumes
# sessions.
connect() {
    local client from=$EPOCHREALTIME to
    for client in 1 2 3 4; do
        start "client-$client" openssl s_time -connect "$2" -new -tls1_3 -www /healthz -time "$seconds" \
            -no-CAfile -no-CApath -no-CAstore
    done
    for client in 1 2 3 4; do
        wait "${processes[client-$client]}" || fail "$1: $(tail -3 "$work/client-$client.log")"
        unset "processes[client-$client]"
    done
    to=$EPOCHREALTIME
    cat "$work"/client-*.out | awk -v seconds="$(awk "BEGIN {print $to - $from}")" '
        # "1269 connections in 3 real seconds, 184 bytes read per connection"
        /real seconds/ {
            if ($7 >= 100) answered++
            connections += $1
        }
        END {
            if (answered < 4) exit 1
            printf "%d\n", connections / seconds
        }
    ' >>"$work/$1.series" || fail "$1: connections were not answered"
}
