# shellcheck shell=bash
# Slow clients, too many connections, bad TLS, expensive requests and strangers keep no other client from being served, and store little.
#
# usage: scripts/prove abuse [slow|descriptors|crowd|idle|tls|cpu|templates|rejected|logins|events|rows]
#
# Attacks the release build.
#
#   slow          slowhttptest with 1,000 connections in each of its modes: slow headers, slow bodies, and slow reading
#                 of large responses, for 40 s each. During each, a new connection every 100 ms must be served within 2 s.
#   descriptors   500 connections to a server with `ulimit -n 256`. A connection that was open before is served during
#                 the attack, and new connections are served after it. The server never lacks a descriptor.
#   crowd         twice as many idle connections as http.max_connections: each is served, and so are new ones within 2 s, since
#                 the server closes those that have been idle the longest. A connection with the Admin key stays open.
#   idle          the server's memory for each of 10,000 idle connections, at most 8 KiB; for each of 2,000 idle
#                 connections over TLS, without a limit.
#   tls           testssl.sh without findings above LOW; session resumption; plain HTTP on a TLS port.
#   cpu           the worst requests of 64 KiB that are known, for each operation of the OpenAPI document but uploads,
#                 imports and exports: at most 5 ms of an event loop's processor time, the median of 21. Above it, the
#                 lowest of three medians counts, since other programs of the machine add to the time. Fails for an operation
#                 with a media type whose worst bodies are not known (scripts/proofs/abuse/bodies.py). Takes 4 minutes.
#   templates     eight users of an app send the worst templates, the requests of a minute at once, while Kakao makes 30
#                 calls a second: 99 % of the calls within 100 ms.
#   rejected      one address sends 64 KiB of rejected requests on each of 250 connections, again and again, while Kakao makes
#                 30 calls a second: 99 % of the calls within 100 ms.
#   logins        invented codes at /login/kakao/callback, with one cookie, and with a login for each code, which Kakao rejects,
#                 answers with the quota of a user, or does not answer. Registrations are served meanwhile, and logins in two
#                 tabs succeed; few calls reach Kakao, and the log has few lines.
#   events        forged account events: none is stored, and Kakao's keys are fetched rarely. Calls from Kakao are served.
#   rows          one stranger's address, one user's app and one phone do their worst for 20 s, while Kakao confirms no
#                 withdrawal. No table grows, and no webhooks are sent, beyond the bounds of docs/threat-model.md.
#
# Runs all of them unless one is named, which takes 15 minutes. `ulimit -Hn` must be at least 20,000. The slow readers
# drive the kernel's memory for TCP to its limit (net.ipv4.tcp_mem) for some seconds: run nothing else of value on the
# machine.

parts=("$@")
case "$*" in
    '') parts=(slow descriptors crowd idle tls cpu templates rejected logins events rows) ;;
    slow | descriptors | crowd | idle | tls | cpu | templates | rejected | logins | events | rows) ;;
    *) fail "there is no attack $*; see --help" ;;
esac

install_requirements openssl python3 jq iproute2 util-linux
# shellcheck source=scripts/servers.sh
. scripts/servers.sh
# shellcheck source=scripts/proofs/abuse/strangers.sh
. scripts/proofs/abuse/strangers.sh

# MARK: Servers and clients

# attack_server NAME [SETTING=VALUE ...] [WRAPPER ...]: starts a server to attack, as start_server does. Sets $port and $url.
attack_server() {
    port=$(free_port)
    url=http://127.0.0.1:$port
    [[ "$*" == *HTTP_TLS_* ]] && url=https://localhost:$port
    start_server "$1" HTTP_PORT="$port" LOG_LEVEL=info "${@:2}"
    wait_for "$1" ask /readyz
}

# ask PATH [ARGUMENT ...]: sends one request on a new connection.
ask() { curl -sf --max-time 10 --cacert "$work/ca.pem" "$url$1" "${@:2}"; }

# resident_bytes NAME, peak_bytes NAME: print the resident memory of a process, and its peak.
resident_bytes() { awk '/^VmRSS/ {print $2 * 1024}' "/proc/${processes[$1]}/status"; }
peak_bytes() { awk '/^VmHWM/ {print $2 * 1024}' "/proc/${processes[$1]}/status"; }

# connections: prints the number of the server's connections, without those that it has closed and the kernel still
# keeps.
connections() { ss -Htn state connected exclude time-wait exclude syn-recv "sport = :$port" | wc -l; }
are_at_most() { [ "$(connections)" -le "$1" ]; }

# hold NAME COUNT KIND: starts clients.py hold, and waits until its connections are open.
hold() {
    start "$1" python3 scripts/proofs/abuse/clients.py hold "$port" "$2" "$3" "$work/ca.pem"
    wait_for "$1" grep -q ready "$work/$1.out"
}

# Creates a private certificate authority, and a server certificate like those of public authorities.
make_certificates() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 90 -subj "/CN=A test's authority" \
        -addext keyUsage=critical,keyCertSign,cRLSign -keyout "$work/ca.key" -out "$work/ca.pem" 2>/dev/null
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \
        -keyout "$work/key.pem" -out "$work/request.pem" 2>/dev/null
    openssl x509 -req -in "$work/request.pem" -CA "$work/ca.pem" -CAkey "$work/ca.key" -CAcreateserial -days 80 \
        -out "$work/leaf.pem" -extfile <(
            printf '%s\n' subjectAltName=DNS:localhost,IP:127.0.0.1 basicConstraints=critical,CA:FALSE \
                keyUsage=critical,digitalSignature extendedKeyUsage=serverAuth
        ) 2>/dev/null
    cat "$work/leaf.pem" "$work/ca.pem" >"$work/chain.pem"
    with_tls=("HTTP_TLS_CERTIFICATE_FILE=$work/chain.pem" "HTTP_TLS_PRIVATE_KEY_FILE=$work/key.pem")
}

# MARK: slow

# Sends a request on a new connection every 100 ms until it is killed, from another address than the attack, which has all
# connections of its own (http.max_connections_per_address). Prints the status and the duration in seconds of each.
ask_on_and_on() {
    while true; do
        curl --interface 127.0.0.2 -s -o /dev/null --max-time 2 -w '%{http_code} %{time_total}\n' "$url/healthz" || true
        sleep 0.1
    done
}

# Prints the resources in use 38 s after the start of an attack: the server's sockets, and TCP buffers in MiB. It counts
# the server's own sockets, since slowhttptest counts a closed connection as open while the kernel still has a response
# for it.
look_late() {
    sleep 38
    find "/proc/${processes[attacked]}/fd" -lname 'socket:*' | wc -l
    awk '$1 == "TCP:" {print int($NF * 4 / 1024)}' /proc/net/sockstat
}

# attack TITLE [ARGUMENT ...]: runs slowhttptest once, and fails if other clients are not served meanwhile.
attack() {
    local title=$1 before
    shift
    before=$(resident_bytes attacked)
    start asking ask_on_and_on
    start late look_late
    slowhttptest -c 1000 -r 200 -l 40 -i 10 "$@" >"$work/slowhttptest" 2>&1 || true
    stop asking
    stop late
    # The last status of slowhttptest, in which each line ends with a number: "closed:              998". If the run
    # ended because no connection was left, this status is some seconds old, and the connections that it shows as open
    # were closed too.
    sed 's/\x1b\[[0-9;]*m//g' "$work/slowhttptest" | awk -v title="$title" '
        /^(connected|error|closed|pending):/ {state[$1] = $2}
        /^Exit status:/ {status = substr($0, index($0, ":") + 1)}
        END {
            if (status ~ /No open connections/) {
                state["closed:"] += state["connected:"]
                state["connected:"] = 0
            }
            printf "%s: 1,000 connections, %d closed by the server, %d open, %d failed;%s\n",
                title, state["closed:"], state["connected:"], state["error:"], status
        }'
    awk '
        $1 != 200 {failed++}
        $2 > worst {worst = $2}
        END {
            printf "  other clients: %d requests, %d failed, slowest %.0f ms\n", NR, failed, worst * 1000
            exit failed > 0 || NR < 50
        }' "$work/asking.out" || fail "$title: other clients were not served"
    if [ -s "$work/late.out" ]; then
        xargs printf '  after 38 s the server had %d sockets, and the machine %d MiB of TCP buffers\n' \
            <"$work/late.out"
    fi
    wait_until 10 "all connections to close" are_at_most 0
    echo "  afterwards no connection is left; the server's memory grew by" \
        "$((($(resident_bytes attacked) - before) / 1024)) KiB," \
        "with a peak of $((($(peak_bytes attacked) - before) / 1024)) KiB above the start"
}

slow() {
    install_missing slowhttptest
    say "slow: 1,000 slow clients"
    attack_server attacked
    # A large response: a list with six callbacks, each of 50,000 characters.
    local number
    head -c 50000 /dev/zero | tr '\0' x >"$work/argument"
    for number in {1..6}; do
        ask /kakao/link/callback -H "Authorization: KakaoAK $KAKAO_ADMIN_KEY" -H "X-Kakao-Resource-ID: $number" -o /dev/null \
            -d CHAT_TYPE=MemoChat -d HASH_CHAT_ID=abuse --data-urlencode "text@$work/argument"
    done
    local authorization="Authorization: KakaoAK $OPERATOR_KEY"
    [ "$(ask /v1/link/callbacks -H "$authorization" | wc -c)" -gt 250000 ] || \
        fail "the list of callbacks has less than 250,000 bytes: too small for slow readers"
    attack "slow headers" -H -u "$url/healthz"
    # slowhttptest has no option for another header field: this one is smuggled in with the value of Cookie.
    local cookie=$'a=b\r\n'"$authorization"
    attack "slow bodies" -B -u "$url/v1/push/register" -s 8192 -x 10 -j "$cookie"
    attack "slow readers" -X -k 10 -w 512 -y 1024 -n 5 -z 32 -u "$url/v1/link/callbacks" -j "$cookie"
    # Otherwise the responses were small enough for the kernel's buffers, and the test proves nothing.
    [ "$(cat "$work"/attacked.{log,out} | grep -c 'GET /v1/link/callbacks 200')" -ge 1000 ] || fail "slow readers got no large response"
    stop attacked
}

# MARK: descriptors

descriptors() {
    say "descriptors: 500 connections at ulimit -n 256"
    attack_server starved prlimit --nofile=256
    start witness python3 scripts/proofs/abuse/clients.py witness "$port"
    wait_for witness test -s "$work/witness.out"
    hold crowd 500 silent
    local before
    before=$(wc -l <"$work/witness.out")
    sleep 5
    awk -v before="$before" '
        NR > before {
            asked++
            if ($1 > worst) worst = $1
        }
        END {
            printf "the connection opened before: %d requests in 5 s, slowest %.1f ms\n", asked, worst
            exit asked < 20
        }' "$work/witness.out" || fail "the connection opened before was not served"
    kill -0 "${processes[witness]}" || fail "the connection opened before was closed: $(<"$work/witness.log")"
    kill -0 "${processes[starved]}" || fail "the server has died"
    grep -h 'limit of open files' "$work"/starved.{log,out} || fail "the log does not say that the limit is low"
    ! grep -h 'Accepting paused' "$work"/starved.{log,out} || fail "the server lacked descriptors"
    stop crowd
    ask /readyz -o /dev/null -w 'after the 500 were closed, a new connection was served in %{time_total} s\n' ||
        fail "new connections are not served after the 500 were closed"
    stop witness
    stop starved
}

# MARK: crowd

crowd() {
    say "crowd: 400 idle connections to a server with room for 200"
    attack_server crowded HTTP_MAX_CONNECTIONS=200
    start kakao python3 scripts/proofs/abuse/clients.py kakao "$port" "$KAKAO_ADMIN_KEY"
    wait_for kakao grep -q ready "$work/kakao.out"
    hold crowd 400 plain
    local worst
    worst=$(for _ in $(seq 20); do ask /readyz -o /dev/null -w '%{time_total}\n' || echo 10; done | sort -n | tail -1)
    echo "of 20 new connections, the slowest was served in $worst s"
    awk "BEGIN { exit !($worst < 2) }" || fail "a new connection was not served within 2 s"
    # The kernel still keeps what the server has closed, as long as the client does not close it.
    local open closed
    read -r open closed < <(curl -sf "$url/metrics" -H "Authorization: Bearer $OPERATOR_KEY" | awk '
        /^kakao_push_http_connections{/ {open += $2}
        /^kakao_push_http_connections_evicted_total{/ {closed += $2}
        END {print open, closed}')
    echo "$open connections; $closed were closed to make room"
    [ "$open" -le 200 ] || fail "the server has more connections than it may have"
    [ "$closed" -ge 200 ] || fail "the server has closed only $closed connections"
    kill -HUP "${processes[kakao]}"
    wait "${processes[kakao]}" || fail "the connection with the Admin key was closed: $(<"$work/kakao.log")"
    unset "processes[kakao]"
    stop crowd
    stop crowded
}

# MARK: idle

# measure COUNT KIND LIMIT [SETTING ...]: prints the memory of each of COUNT connections, in bytes; fails above LIMIT.
measure() {
    local count=$1 kind=$2 limit=$3 before tcp slab each
    shift 3
    attack_server idle HTTP_MAX_CONNECTIONS=14000 HTTP_IDLE_TIMEOUT_SECONDS=600 "$@"
    # Memory that the first requests allocate does not belong to the connections.
    for _ in $(seq 20); do ask /healthz >/dev/null; done
    sleep 1
    before=$(resident_bytes idle)
    tcp=$(awk '$1 == "TCP:" {print $NF}' /proc/net/sockstat)
    slab=$(awk '/^Slab:/ {print $2}' /proc/meminfo)
    hold holding "$count" "$kind"
    sleep 1
    [ "$(connections)" -ge "$count" ] || fail "only $(connections) connections are open"
    each=$((($(resident_bytes idle) - before) / count))
    tcp=$(($(awk '$1 == "TCP:" {print $NF}' /proc/net/sockstat) - tcp))
    slab=$(($(awk '/^Slab:/ {print $2}' /proc/meminfo) - slab))
    echo "$count idle connections, $kind: each takes $each bytes of the server's memory." \
        "In the kernel, for both ends: $((slab * 1024 / count)) bytes of objects, $((tcp * 4096 / count)) bytes of buffers"
    ask /healthz >/dev/null || fail "a further connection was not served"
    stop holding
    wait_until 30 "all connections to close" are_at_most 0
    echo "  $((($(resident_bytes idle) - before) / count)) bytes for each after they are closed"
    stop idle
    [ "$each" -le "$limit" ] || fail "an idle connection takes more than $limit bytes"
}

idle() {
    say "idle: the memory of idle connections"
    [ "$(ulimit -n)" -ge 20000 ] || fail "ulimit -Hn is $(ulimit -n), but the server may need 20,000 open files: raise it"
    measure 10000 plain 8192
    measure 2000 tls 1000000 "${with_tls[@]}"
}

# MARK: tls

# Findings that the server does not cause, by testssl's ids, with the reason.
declare -A excused=(
    [cert_revocation]="a private authority publishes no revocation addresses"
    [DNS_CAArecord]="localhost has no DNS zone for a CAA record"
)

# talk VERSION [ARGUMENT ...]: sends one request with openssl s_client.
talk() {
    printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' |
        timeout 10 openssl s_client -connect "127.0.0.1:$port" "-tls$1" -servername localhost -CAfile "$work/ca.pem" \
            -verify_return_error -ign_eof "${@:2}" 2>&1
}

tls() {
    install_missing testssl.sh
    say "tls: resumption, plain HTTP, testssl.sh"
    attack_server secure "${with_tls[@]}"
    local version status
    for version in 1_2 1_3; do
        talk "$version" -sess_out "$work/session" | grep -q '^New, TLSv' || fail "TLS $version: no new session"
        talk "$version" -sess_in "$work/session" | grep '^Reused, TLSv' || fail "TLS $version: a session is not resumed"
    done
    status=$(curl -s -o "$work/plain" -w '%{http_code}' "http://127.0.0.1:$port/healthz")
    echo "plain HTTP: $status $(jq -r .detail "$work/plain")"
    [ "$status" = 400 ] || fail "plain HTTP is not answered 400"
    testssl --quiet --color 0 --warnings off --add-ca "$work/ca.pem" --jsonfile "$work/testssl.json" --ip 127.0.0.1 \
        "https://localhost:$port" >"$work/testssl" 2>&1 </dev/null || true
    jq -e 'any(.[]; .id == "scanTime" and .severity == "INFO")' "$work/testssl.json" >/dev/null ||
        fail "testssl did not finish: $(tail -5 "$work/testssl")"
    echo "testssl: $(jq length "$work/testssl.json") findings; those other than OK and INFO:"
    local bad=0 severity id finding
    while IFS=$'\t' read -r severity id finding; do
        echo "  $severity $id: $finding${excused[$id]:+ (excused: ${excused[$id]})}"
        if [[ $severity =~ ^(MEDIUM|HIGH|CRITICAL|FATAL)$ && -z ${excused[$id]:-} ]]; then bad=$((bad + 1)); fi
    done < <(jq -r '.[] | select(.severity | IN("OK", "INFO") | not) | [.severity, .id, .finding] | @tsv' "$work/testssl.json")
    [ "$bad" = 0 ] || fail "$bad findings above LOW"
    stop secure
}

# MARK: cpu, templates, rejected

# serve_everything NAME [SETTING=VALUE ...]: starts a server that offers all operations, with the sandbox as Kakao. Exports
# $SERVER_URL, and sets $feedback, its feedback secret.
serve_everything() {
    feedback=feedback-secret-of-the-attack
    attack_server "$1" KAKAO_AUTH_URL="$sandbox" KAKAO_APP_ID=123456 KAKAO_REST_API_KEY=sandbox-rest-api-key \
        KAKAO_CLIENT_SECRET=sandbox-client-secret KAKAO_NATIVE_APP_KEY=sandbox-native-app-key FEEDBACK_SECRET="$feedback" \
        ACCOUNTS_ENCRYPTION_KEY="$(head -c 32 /dev/urandom | base64)" SHARING_SIGNING_KEY=signing-key-of-the-attack-0123456789 \
        SHARING_APP_KEY_CALLS=true SHARING_KA_HEADER="sdk/1.0 os/ios-17.0 origin/com.example.app" SHARING_DOMAINS=example.com \
        STORY_ENABLED=true LOGIN_RETURN_URLS=https://example.com/return HTTP_PUBLIC_URL=http://127.0.0.1 LOG_LEVEL=notice "${@:2}"
    export SERVER_URL=$url SANDBOX_URL=$sandbox
}

cpu() {
    say "cpu: the worst requests of each operation"
    serve_everything measured DEVICES_REQUESTS_PER_MINUTE_PER_USER=0 DEVICES_REQUESTS_PER_MINUTE_PER_ADDRESS=0
    "$programs/push-server" openapi >"$work/openapi.json"
    python3 scripts/proofs/abuse/cpu.py "${processes[measured]}" "$work/openapi.json" 5 "$feedback" ||
        fail "an operation costs too much"
    stop measured
}

templates() {
    say "templates: eight users of an app send the worst templates"
    serve_everything templated
    python3 scripts/proofs/abuse/templates.py 10 100 || fail "Kakao's calls were held back"
    stop templated
}

rejected() {
    say "rejected: one address sends as many rejected requests as it can"
    serve_everything rejecting
    python3 scripts/proofs/abuse/rejected.py 10 100 || fail "Kakao's calls were held back"
    stop rejecting
}

# MARK: rows

rows() {
    say "rows: a stranger, an app and a phone"
    local secret
    secret=whsec_$(openssl rand -base64 32)
    # Without the limits of an app's requests, which would hide those of its rows.
    attack_server storing KAKAO_APP_ID=123456 KAKAO_REST_API_KEY=sandbox-rest-api-key DEVICES_REQUESTS_PER_MINUTE_PER_USER=0 \
        DEVICES_REQUESTS_PER_MINUTE_PER_ADDRESS=0 \
        SHARING_SIGNING_KEY=signing-key-of-the-attack-0123456789 SHARING_DOMAINS=shop.example.com \
        WEBHOOKS_URL="$sandbox/webhooks" WEBHOOKS_SECRET="$secret"
    fault '{"kind":"down","path":"/v1/push/deregister"}'
    SERVER_URL=$url SANDBOX_URL=$sandbox python3 scripts/proofs/abuse/rows.py 20 || fail "a bound of docs/threat-model.md is passed"
    curl -sf -X DELETE "$sandbox/sandbox/faults" >/dev/null
    stop storing
}

# MARK: Main

ulimit -n "$(ulimit -Hn)"
build --release push-server kakao-sandbox
export OPERATOR_KEY=operator-key-of-the-attack-0123456789
start_postgres
start_sandbox
migrate
make_certificates
for part in "${parts[@]}"; do "$part"; done
say "All other clients were served."
