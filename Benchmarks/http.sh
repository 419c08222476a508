# shellcheck shell=bash
# The benchmark of scripts/bench http. Sourced, not executed.
# shellcheck disable=SC2154

declare -A title=([ours]="this server" [one-socket]="this server with one socket for all loops" [nginx]=nginx [hummingbird]=Hummingbird [flyingfox]=FlyingFox)
# The addresses of each server for GET, POST and TLS.
declare -A get post tls

# start_benchmark NAME [ARGUMENT ...]: starts http-benchmark, this engine with a POST that needs no database; sets
# $port.
start_benchmark() {
    local process=$1
    shift
    start "$process" "$programs/http-benchmark" "$@"
    wait_for "$process" test -s "$work/$process.out"
    port=$(<"$work/$process.out")
}

# built_peer NAME: builds a peer of Benchmarks/peers outside this package, so that its dependencies stay out, and prints
# its path.
built_peer() {
    local package=$1-server build
    build=(swift build -c release --package-path "Benchmarks/peers/$package" --scratch-path ".build-peers/$package")
    "${build[@]}" >&2
    printf '%s/App' "$("${build[@]}" --show-bin-path)"
}

# start_peer NAME PROGRAM: starts a peer, and sets its addresses.
start_peer() {
    local port
    port=$(free_port)
    start "$1" "$2" "$port"
    get[$1]=http://127.0.0.1:$port/healthz
    post[$1]=http://127.0.0.1:$port/v1/devices
    wait_for "$1" curl -sf "${get[$1]}"
}

start_nginx_peer() {
    local port tls_port
    port=$(free_port)
    tls_port=$(free_port)
    start_nginx nginx nginx PORT="$port" TLS_PORT="$tls_port" CERTIFICATE="$work/certificate.pem" KEY="$work/key.pem" TICKETS=on
    get[nginx]=http://127.0.0.1:$port/healthz
    tls[nginx]=127.0.0.1:$tls_port
    wait_for nginx curl -sf "${get[nginx]}"
}

# A device registration of 325 bytes.
token=fMEP0vJqS0:APA91bHqL8xkTn2Zr4sVwYc6uDgEiFoPa3RtXmNb5QeWy7KzJhGvUl1CxSd9OfIpMw0BnAq2TrLkYjHs8VgZcEuXdRoWi
token+=4PmNfQaKbTzGySl6JvChUxEp3DwOrIn7MtBqYcAk5LsHgXfVe
registration='{"user_id":1234567890123456789,"device_id":"a3f5c1d2-phone","push_type":"fcm","push_token":"'$token'"'
registration+=',"locale":"ko-KR","timezone":"Asia/Seoul","app_version":"4.12","tags":["news"]}'

# Checks that every server does the work that is measured.
check_answers() {
    local server answer
    for server in "${!get[@]}"; do
        [ "$(curl -s "${get[$server]}")" = ok ] || fail "$server does not answer GET with ok"
    done
    for server in "${!post[@]}"; do
        answer=$(curl -s "${post[$server]}" -H 'Content-Type: application/json' -d "$registration")
        [[ $answer == *'"user_id":1234567890123456789'* && $answer == *"\"push_token\":\"$token\""* ]] ||
            fail "$server does not answer POST with the registration: $answer"
    done
}

install_requirements wrk nginx openssl
hummingbird=$(built_peer hummingbird)
flyingfox=$(built_peer flyingfox)
start_push_server
build --release http-benchmark
create_certificate
get[ours]=$SERVER_URL/healthz
start_benchmark plain
post[ours]=http://127.0.0.1:$port/v1/devices
start_benchmark tls --certificate-file "$work/certificate.pem" --key-file "$work/key.pem"
tls[ours]=127.0.0.1:$port
# As with the socket of a service manager.
start_benchmark one-socket --one-socket
post[one-socket]=http://127.0.0.1:$port/v1/devices
start_benchmark tls-one-socket --one-socket --certificate-file "$work/certificate.pem" --key-file "$work/key.pem"
tls[one-socket]=127.0.0.1:$port
start_nginx_peer
start_peer hummingbird "$hummingbird"
start_peer flyingfox "$flyingfox"
check_answers
cat >"$work/post.lua" <<LUA
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '$registration'
LUA

# shown WHAT SERVER ...: prints the latest measurement of each server.
shown() {
    local what=$1 server text=""
    shift
    for server in "$@"; do
        text+=", ${title[$server]} $(last "$what-$server" 1)/s"
        [ "$what" = tls ] || text+=" (p50 $(last "$what-$server" 2), p99 $(last "$what-$server" 3) ms)"
    done
    echo "round $round, $what: ${text#, }"
}
say "$rounds rounds on $(nproc) cores, $seconds seconds for each measurement; load before the run $(cut -d' ' -f1 /proc/loadavg)"
for round in $(seq "$rounds"); do
    for server in ours nginx hummingbird flyingfox; do
        process=$server
        [ "$server" != ours ] || process=dev
        drive "get-$server" "$process" "${get[$server]}"
    done
    shown get ours nginx hummingbird flyingfox
    for server in ours one-socket hummingbird flyingfox; do
        process=$server
        [ "$server" != ours ] || process=plain
        drive "post-$server" "$process" --script "$work/post.lua" "${post[$server]}"
    done
    shown post ours one-socket hummingbird flyingfox
    for server in ours one-socket nginx; do connect "tls-$server" "${tls[$server]}"; done
    shown tls ours one-socket nginx
done

# wrk shares the cores with the server and takes most of them from a fast server, so CPU time for each request is
# compared as well.
printf '\n| median of %s | requests/s | p50 | p99 | CPU time for each request |\n| --- | --- | --- | --- | --- |\n' "$rounds"
for series in get-{ours,nginx,hummingbird,flyingfox} post-{ours,one-socket,hummingbird,flyingfox}; do
    what=${series%%-*}
    echo "| ${what^^}, ${title[${series#*-}]} | $(median "$series" 1) |" \
        "$(median "$series" 2) ms | $(median "$series" 3) ms | $(median "$series" 4) µs |"
done
cat <<TEXT

| measure | target | measured |
| --- | --- | --- |
| GET, against nginx | ≥ 0.90 | $(against get-ours get-nginx) |
| GET, against Hummingbird | ≥ 4 | $(against get-ours get-hummingbird) |
| GET, against FlyingFox | | $(against get-ours get-flyingfox) |
| CPU time of a GET, Hummingbird's against this server's | | $(ratio "$(median get-hummingbird 4)" "$(median get-ours 4)") |
| CPU time of a GET, nginx's against this server's | | $(ratio "$(median get-nginx 4)" "$(median get-ours 4)") |
| POST JSON, against Hummingbird | ≥ 3 | $(against post-ours post-hummingbird) |
| POST JSON, against FlyingFox | | $(against post-ours post-flyingfox) |
| POST with one socket for all loops, against one for each | ≥ 0.97 | $(against post-one-socket post-ours) |
| new TLS 1.3 connections/s, likewise | ≥ 0.97 | $(against tls-one-socket tls-ours) |
| new TLS 1.3 connections/s, against nginx with the same key | ≥ 0.8 | $(against tls-ours tls-nginx) |
| p99 at 64 connections, against nginx | ≤ 1.5 | $(ratio "$(median get-ours 3)" "$(median get-nginx 3)") |
| resident memory, idle, whole server | ≤ 28 MB | $(awk "BEGIN {printf \"%.1f\", $resident * 1024 / 1000000}") MB |
TEXT
