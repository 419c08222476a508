# shellcheck shell=bash
# The benchmark of scripts/bench opens. Sourced, not executed.
# shellcheck disable=SC2154

# shellcheck source=Benchmarks/pushes.sh
. Benchmarks/pushes.sh

users=1000000
# The users whose apps call.
callers=50000
# The pushes of each measurement of the fan-out.
pushes=4
# 200,000 reports a minute: each of the connections waits for a response, and then for the delay in milliseconds.
open_connections=500
delay=90
# The pushes of a month, and those of them to everyone. The others are to ten thousand users each.
month=300
month_to_everyone=50

install_requirements wrk nginx python3
start_push_server
dev_url=$DATABASE_URL
start_sink
say "Registering $users users"
create_database opens
register_users "$users"
export IDENTITY_JWT_ISSUER=https://api.example.com IDENTITY_JWT_AUDIENCE=push IDENTITY_JWT_SECRET=secret-of-the-benchmark-0123456789abcdef \
    DEVICES_REQUESTS_PER_MINUTE_PER_USER=0 DEVICES_REQUESTS_PER_MINUTE_PER_ADDRESS=0 PUSHES_OPENS_PER_HOUR_PER_USER=0 \
    PUSHES_INBOX_PER_MINUTE_PER_USER=0 PUSHES_INBOX_DAYS=31
serve "$port"
python3 - "$users" "$callers" >"$work/tokens" <<'PY'
import base64, hashlib, hmac, json, os, sys, time

def text(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

users, callers = int(sys.argv[1]), int(sys.argv[2])
head = text(b'{"alg":"HS256","typ":"JWT"}')
end = int(time.time()) + 86400
for caller in range(callers):
    claims = {"iss": os.environ["IDENTITY_JWT_ISSUER"], "aud": os.environ["IDENTITY_JWT_AUDIENCE"], "exp": end,
              "sub": str(1 + caller * (users // callers))}
    signed = head + "." + text(json.dumps(claims).encode())
    code = hmac.new(os.environ["IDENTITY_JWT_SECRET"].encode(), signed.encode(), hashlib.sha256).digest()
    print(signed + "." + text(code))
PY

# apps FILE METHOD PATH ...: writes a script for wrk: each request is of the next app, and each app calls one path after the other.
apps() {
    local file=$1 method=$2
    shift 2
    cat >"$file" <<LUA
local tokens, paths, place = {}, {$(printf '"%s",' "$@")}, 0
function init()
    for line in io.lines("$work/tokens") do tokens[#tokens + 1] = "Bearer " .. line end
end
function request()
    local token = tokens[place % #tokens + 1]
    local path = paths[math.floor(place / #tokens) % #paths + 1]
    place = place + 1
    return wrk.format("$method", path, {["Authorization"] = token})
end
LUA
    reported_failures >>"$file"
}

# fan_out SERIES: sends pushes to everyone one after the other, and adds the batches/s of each to the series. Their ids are in $ids.
fan_out() {
    ids=()
    local id
    for _ in $(seq "$pushes"); do
        id=$(post '{"everyone":true}')
        wait_done 300 "$id"
        ids+=("$id")
        sql --command "SELECT ((next_number - 1) / extract(epoch FROM finished_at - started_at))::integer FROM pushes WHERE id = '$id'" \
            >>"$work/$1.series"
    done
}

opened() { sql --command "SELECT COALESCE(sum(users), 0) FROM push_open_counts"; }

fan_out warmup
for round in $(seq "$rounds"); do
    fan_out alone
    mapfile -t paths < <(printf '/v1/pushes/%s/opened\n' "${ids[@]}")
    apps "$work/opens.lua" POST "${paths[@]}"
    printf 'function delay() return %d end\n' "$delay" >>"$work/opens.lua"
    before=$(opened)
    wrk --threads 1 --connections "$open_connections" --duration 60s --latency --script "$work/opens.lua" "$url" >"$work/wrk" &
    load=$!
    sleep 5
    while kill -0 "$load" 2>/dev/null; do fan_out beside; done
    wait "$load"
    grep -q '^failed 0' "$work/wrk" || fail "reports failed: $(<"$work/wrk")"
    awk '$1 == "50%" {p50 = $2} $1 == "99%" {p99 = $2} $2 == "requests" {requests = $1} /^Requests\/sec/ {print $2, requests, p50, p99}' \
        "$work/wrk" >>"$work/opens.series"
    echo "$(($(opened) - before))" >>"$work/stored.series"
    echo "round $round: alone $(column alone 1 | tail -"$pushes" | xargs), beside $(column beside 1 | tail -"$pushes" | xargs) batches/s;" \
        "opens/s, all, p50, p99: $(tail -1 "$work/opens.series"), stored $(tail -1 "$work/stored.series")"
done

say "Creating the pushes of a month"
for number in $(seq "$month"); do
    if ((number % (month / month_to_everyone) == 0)); then
        post '{"everyone":true}'
    else
        start=$((RANDOM * 29 + 1))
        post "{\"uuids\":[$(seq -s, "$start" $((start + 9999)))]}"
    fi
done >"$work/month"
wait_done 300 "$(tail -1 "$work/month")"
sql --command "UPDATE pushes SET started_at = now() - interval '60 days'" \
    --command "UPDATE pushes SET started_at = now() - (place - 1) * interval '31 days' / $month
        FROM (SELECT id, row_number() OVER (ORDER BY id DESC) AS place FROM pushes) AS latest
        WHERE latest.id = pushes.id AND place <= $month" --command 'VACUUM ANALYZE pushes, push_parts, push_batches, push_opens' >/dev/null
seconds=10
for days in 1 7 31; do
    since=$(date --utc --date "$days days ago" +%FT%TZ)
    apps "$work/inbox-$days.lua" GET "/v1/me/pushes?since=$since"
    drive "inbox-$days" serve --script "$work/inbox-$days.lua" "$url"
    echo "inbox of $days days: requests/s, p50 ms, p99 ms, CPU µs of the server: $(tail -1 "$work/inbox-$days.series")"
done

cat <<TEXT

$users users; medians of $rounds rounds, each with $pushes pushes alone, and as many as fit into a minute with 200,000 reports

| measure | measured |
| --- | --- |
| batches/s of a push to everyone beside the reports, against alone | $(against beside alone) |
| reports/s | $(median opens 1) |
| inbox of 1, 7 and 31 days, requests/s | $(median inbox-1 1), $(median inbox-7 1), $(median inbox-31 1) |
TEXT
