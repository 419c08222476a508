# shellcheck shell=bash
# The parts `logins` and `events` of scripts/prove abuse. Sourced by abuse.sh, not executed.

# start_client NAME MODE [ARGUMENT ...]: runs strangers.py against the attacked server, in the background.
start_client() { start "$1" python3 scripts/proofs/abuse/strangers.py "$2" "$port" "${@:3}"; }

# requests_of PATH: prints the number of the server's calls to a path of Kakao's.
requests_of() { curl -sf "$sandbox/sandbox/stats" | jq --arg path "$1" '.requests[$path] // 0'; }

# log_lines: prints the number of lines in the server's log.
log_lines() { cat "$work"/strange.{log,out} | wc -l; }

# start_strange NAME=VALUE ...: starts a server with logins and account events. Sets $port and $url.
start_strange() {
    export KAKAO_APP_ID=123456 KAKAO_AUTH_URL=$sandbox KAKAO_REST_API_KEY=sandbox-rest-api-key
    start_server strange HTTP_PORT="$port" HTTP_PUBLIC_URL="$url" KAKAO_CLIENT_SECRET=sandbox-client-secret \
        ACCOUNTS_ENCRYPTION_KEY="$(openssl rand -base64 32)" LOGIN_RETURN_URLS=https://shop.example.com/done "$@"
    wait_for strange ask /readyz
}

# check_others NAME TITLE: ends a process of `register` or `callback`, prints its times, and fails if a request failed or if one
# of a hundred took longer than 5 s: a machine without a free core makes some wait for a second or two, but those behind invented codes
# waited for 8 s and more.
check_others() {
    kill "${processes[$1]}"
    wait "${processes[$1]}" || fail "$2 ended early: $(<"$work/$1.log")"
    unset "processes[$1]"
    tail -n 1 "$work/$1.out" | awk -v title="$2" '{
        printf "  %s: %d, %d failed; median %s ms, p99 %s ms, slowest %s ms\n", title, $1, $2, $3, $4, $5
        exit $1 < 100 || $2 > 0 || $4 > 5000
    }' || fail "$2 failed or were slow"
}

# MARK: logins

# attack_logins TITLE one|many CONNECTIONS CALLS ADDRESS ...: attacks for 15 s, and fails if the server makes more than so many calls to
# Kakao, writes more than three lines a second, or if logins from the addresses fail.
attack_logins() {
    local title=$1 calls lines address begin seconds logins=""
    calls=$(requests_of /oauth/token)
    lines=$(log_lines)
    begin=$SECONDS
    start_client registering register
    wait_for registering grep -q ready "$work/registering.out"
    start_client attacking codes "$2" "$3" 15
    sleep 2
    for address in "${@:5}"; do
        seconds=$(python3 scripts/proofs/abuse/strangers.py tabs "$port" "$address") || fail "$title: no login in two tabs from $address"
        logins+="  a login in two tabs from $address, during the attack from 127.0.0.1: $seconds s"$'\n'
    done
    wait "${processes[attacking]}" || fail "the attack ended early: $(<"$work/attacking.log")"
    unset "processes[attacking]"
    seconds=$((SECONDS - begin))
    printf '%s, for %s s: %s\n%s' "$title" "$seconds" "$(<"$work/attacking.out")" "$logins"
    check_others registering registrations
    calls=$(($(requests_of /oauth/token) - calls))
    lines=$(($(log_lines) - lines))
    echo "  $calls calls to /oauth/token; $lines lines in the log"
    [ "$calls" -le $(($4 + seconds * 5)) ] || fail "$title: $calls calls to /oauth/token"
    [ "$lines" -le $((seconds * 3)) ] || fail "$title: $lines lines in the log"
}

logins() {
    say "logins: invented codes"
    port=$(free_port)
    url=http://127.0.0.1:$port
    start_strange
    # One call for the login of the cookie, and two for each login in two tabs.
    attack_logins "one cookie, 64 connections" one 64 5 127.0.0.1 127.0.0.2
    # The rejections of a minute and the calls in flight, before the pace of 5 a second.
    attack_logins "a login for each code, 64 connections" many 64 60 127.0.0.1 127.0.0.2
    attack_logins "a login for each code, 300 connections" many 300 60 127.0.0.2
    # Answers that say nothing about a code cost no less than rejections.
    fault '{"path":"/oauth/token","kind":"status","status":429,"error_code":"KOE237"}'
    attack_logins "a login for each code, which Kakao answers with KOE237" many 64 60
    curl -sf -X DELETE "$sandbox/sandbox/faults" >/dev/null
    fault '{"path":"/oauth/token","kind":"status","status":503}'
    attack_logins "a login for each code, which a gateway answers 503" many 64 60
    curl -sf -X DELETE "$sandbox/sandbox/faults" >/dev/null
    [ "$(sql -c 'SELECT count(*) FROM login_results')" -le 1000 ] || fail "the attacks left many rows"
    stop strange
}

# MARK: events

events() {
    say "events: forged account events"
    port=$(free_port)
    url=http://127.0.0.1:$port
    stop sandbox
    start_sandbox --callback-url "$url"
    start_strange
    local before stored fetches lines begin=$SECONDS
    before=$(sql -c 'SELECT count(*) FROM events')
    curl -sf -d '{"user_id":1234}' "$sandbox/sandbox/account-events" | jq -e '.status == 202' >/dev/null || fail "an event was refused"
    fetches=$(requests_of /.well-known/jwks.json)
    lines=$(log_lines)
    start_client calling callback
    wait_for calling grep -q ready "$work/calling.out"
    start_client forging events "$sandbox" 64 20
    sleep 5
    curl -sf -d '{"user_id":5678}' "$sandbox/sandbox/account-events" | jq -e '.status == 202' >/dev/null ||
        fail "an event was refused during the attack"
    wait "${processes[forging]}" || fail "the attack ended early: $(<"$work/forging.log")"
    unset "processes[forging]"
    echo "64 connections, for 20 s: $(<"$work/forging.out")"
    check_others calling "calls from Kakao"
    # The attack itself has fetched the keys once, for a known key.
    fetches=$(($(requests_of /.well-known/jwks.json) - fetches - 1))
    stored=$(($(sql -c 'SELECT count(*) FROM events') - before))
    lines=$(($(log_lines) - lines))
    echo "  $stored events are stored, $fetches fetches of Kakao's keys, $lines lines in the log"
    [ "$stored" = 2 ] || fail "$stored events are stored, rather than Kakao's two"
    [ "$fetches" -le $(((SECONDS - begin) / 15 + 1)) ] || fail "Kakao's keys were fetched $fetches times"
    [ "$lines" -le $(((SECONDS - begin) * 3)) ] || fail "$lines lines in the log"
    stop strange
}
