# shellcheck shell=bash
# scripts/bench fanout; sourced.
# shellcheck disable=SC2154

# The server's own limit of requests under way; as many connections for wrk, as many clients for pgbench.
connections=32
users=1000000
# Pushes to one user each, on an idle server, for the time until Kakao has the first request.
small=200

install_requirements wrk nginx postgresql-contrib
start_push_server
dev_url=$DATABASE_URL
program=$(built push-server)
port=$(free_port)
timed_port=$(free_port)
while [ "$timed_port" = "$port" ]; do timed_port=$(free_port); done
sed "s|@PORT@|$port|; s|@TIMED_PORT@|$timed_port|" scripts/peers/sink.conf >"$work/sink.conf"
start sink nginx -p "$work" -c "$work/sink.conf" -e "$work/sink.error.log"
wait_for sink curl -sf "http://127.0.0.1:$port/"

say "Registering $users users"
psql --quiet "$dev_url" --command 'CREATE DATABASE fanout'
# The database of dev.env with another name.
fanout_url=$(sed -E 's|/[^/?]*(\?.*)?$|/fanout\1|' <<<"$dev_url")
export DATABASE_URL=$fanout_url
"$program" migrate >/dev/null 2>&1 || fail "the migrations did not run"
sql() { psql --quiet --no-align --tuples-only "$fanout_url" "$@"; }
sql >/dev/null <<SQL
INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision)
SELECT id, 'phone', 'fcm', md5(id::text) || md5(id::text || 'x') || repeat('k', 88), 1
FROM generate_series(1, $users) AS id;
CREATE TABLE jobs (id bigint PRIMARY KEY, state text NOT NULL);
CREATE INDEX ON jobs (id) WHERE state = 'waiting';
VACUUM ANALYZE;
SQL

# serve SINK_PORT: the server, sending to that port.
serve() {
    HTTP_PORT=0 KAKAO_API_URL=http://127.0.0.1:$1 KAKAO_MAX_CONCURRENT_REQUESTS=$connections LOG_LEVEL=notice \
        start serve "$program" serve
    wait_for serve grep -q Ready "$work/serve.log" "$work/serve.out"
    url=http://$(grep -ohE '127\.0\.0\.1:[0-9]+' "$work/serve.log" "$work/serve.out" | head -1)
}
stop_serving() {
    kill "${processes[serve]}"
    wait "${processes[serve]}" || true
    unset "processes[serve]"
}
api() { curl -sS --fail-with-body -H "Authorization: Bearer $OPERATOR_KEY" "$@"; }
message='{"for_gcm":{"custom_field":{"title":"Flash sale","text":"Everything is half price until midnight","link":"https://example.com/sale"}}}'
# post AUDIENCE: asks for a push; prints its id.
post() {
    api "$url/v1/pushes" -H 'Content-Type: application/json' -d "{\"audience\":$1,\"message\":$message}" |
        sed -E 's/^\{"id":"([^"]*)".*/\1/'
}
# wait_done SECONDS ID: until the push is done. One session looks, for to start psql again and again takes a tenth of this machine.
wait_done() {
    sql >/dev/null --command "SET statement_timeout = '$1s'" --command "DO \$\$ BEGIN
        WHILE (SELECT state FROM pushes WHERE id = '$2') <> 'done' LOOP
            COMMIT;
            PERFORM pg_sleep(0.02);
        END LOOP;
    END \$\$" || fail "the push was not done within $1 s"
}
metric() { api "$url/metrics" | awk -v name="$1" '$1 == name {printf "%d\n", $2}'; }

# The request of a whole batch, for wrk.
serve "$port"
api "$url/v1/pushes" -H 'Content-Type: application/json' -d "{\"audience\":{\"everyone\":true},\"message\":$message,\"dry_run\":true}" \
    >"$work/preview.json"
body=$(grep -o '"body":"[^"]*"' "$work/preview.json" | head -1 | sed 's/^"body":"//; s/"$//')
[ "${#body}" -gt 1000 ] || fail "the dry run shows no request: $(<"$work/preview.json")"
cat >"$work/sink.lua" <<LUA
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded;charset=utf-8"
wrk.headers["Authorization"] = "KakaoAK 0123456789abcdef0123456789abcdef"
wrk.body = "$body"
LUA
cat >"$work/jobs.sql" <<'SQL'
UPDATE jobs SET state = 'sending'
WHERE id = (SELECT id FROM jobs WHERE state = 'waiting' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id \gset
UPDATE jobs SET state = 'sent' WHERE id = :id;
SQL

for round in $(seq "$rounds"); do
    # A server of its own for each million, so that the memory is that of one.
    stop_serving
    sql --command 'VACUUM push_batches, push_claims, push_parts, push_counts' --command CHECKPOINT >/dev/null
    serve "$port"
    statements=$(metric kakao_push_database_statements_total)
    wal=$(sql --command 'SELECT pg_current_wal_lsn()')
    before=$(cpu_ticks serve)
    id=$(post '{"everyone":true}')
    wait_done 300 "$id"
    read -r batches took < <(sql --field-separator ' ' --command "
        SELECT next_number - 1, extract(epoch FROM finished_at - created_at) FROM pushes WHERE id = '$id'
            AND $users = (SELECT sum(users) FROM push_counts WHERE push_id = '$id' AND state = 'sent')")
    [ "${batches:-0}" -gt 0 ] || fail "not everybody was sent the push"
    wal=$(sql --command "SELECT pg_current_wal_lsn() - '$wal'::pg_lsn")
    statements=$(($(metric kakao_push_database_statements_total) - statements))
    dead=$(sql --command "SELECT pg_stat_force_next_flush(), sum(n_dead_tup) FROM pg_stat_user_tables WHERE relname LIKE 'push\_%'" | cut -d'|' -f2)
    peak=$(awk '/^VmHWM/ {print $2}' "/proc/${processes[serve]}/status")
    awk -v b="$batches" -v t="$took" -v u="$users" -v w="$wal" -v s="$statements" -v d="$dead" -v p="$peak" \
        -v ticks="$(($(cpu_ticks serve) - before))" -v hertz="$(getconf CLK_TCK)" \
        'BEGIN {printf "%d %d %.2f %d %.2f %d %.1f %.1f\n", b / t, u / t, t, w / b, s / b, d, p * 1024 / 1000000, ticks * 1000000 / hertz / b}' \
        >>"$work/million.series"
    wrk --threads 1 --connections "$connections" --duration "${seconds}s" --script "$work/sink.lua" \
        "http://127.0.0.1:$port/v1/push/send" | awk '$1 == "Requests/sec:" {printf "%d\n", $2}' >>"$work/wrk.series"
    sql --command "TRUNCATE jobs" --command "INSERT INTO jobs SELECT id, 'waiting' FROM generate_series(1, 200000) AS id" \
        --command 'VACUUM ANALYZE jobs' >/dev/null
    pgbench --no-vacuum --client "$connections" --jobs 1 --time "$seconds" --protocol prepared --file "$work/jobs.sql" \
        "$fanout_url" 2>/dev/null | awk '/^tps/ {printf "%d\n", $3}' >>"$work/pgbench.series"
    echo "round $round: $(last million 1) batches/s ($(last million 3) s), wrk $(last wrk 1)/s, pgbench $(last pgbench 1)/s"
done

# Latency: the sink's clock is the machine's, as is the database's. Each push is done before the next is asked for.
stop_serving
serve "$timed_port"
sleep 1
idle=$(metric kakao_push_database_statements_total)
sleep 10
# One of them asked for the metrics.
idle=$(($(metric kakao_push_database_statements_total) - idle - 1))
: >"$work/sink.times"
for number in $(seq "$small"); do
    id=$(post "{\"uuids\":[$number]}")
    wait_done 10 "$id"
done
paste -d' ' <(sql --command "SELECT extract(epoch FROM created_at) FROM pushes ORDER BY id DESC LIMIT $small" | tac) "$work/sink.times" |
    awk '{printf "%.1f\n", ($2 - $1) * 1000}' >"$work/small.series"
[ "$(wc -l <"$work/sink.times")" = "$small" ] || fail "the small pushes were not sent once each"
for round in $(seq "$rounds"); do
    : >"$work/sink.times"
    # nginx goes on writing where it was unless it is told to open the file again.
    kill -USR1 "${processes[sink]}"
    sleep 1
    id=$(post '{"everyone":true}')
    wait_done 300 "$id"
    sql --command "SELECT extract(epoch FROM created_at) FROM pushes WHERE id = '$id'" |
        awk -v first="$(sort -n "$work/sink.times" | head -1)" '{printf "%.0f\n", (first - $1) * 1000}' >>"$work/first.series"
done

percentile() { sort -n "$work/$1.series" | awk -v p="$2" '{v[NR] = $1} END {i = int(NR * p + 0.999); print v[i < 1 ? 1 : i]}'; }
cat <<TEXT

$users users, $connections requests under way; medians of $rounds

| measure | to reach | measured |
| --- | --- | --- |
| batches/s against pgbench claim-and-complete of single rows | ≥ 3 | $(ratio "$(median million 1)" "$(median pgbench 1)") ($(median million 1)/s to $(median pgbench 1)/s) |
| batches/s against wrk with the same request and connections | ≥ 0.5 | $(ratio "$(median million 1)" "$(median wrk 1)") ($(median million 1)/s to $(median wrk 1)/s) |
| POST /v1/pushes to everyone → first request at Kakao | ≤ 250 ms | $(median first 1) ms |
| new push on an idle server → first request at Kakao, p99 | ≤ 20 ms | $(percentile small 0.99) ms (p50 $(percentile small 0.5) ms) |
| peak resident memory during the million | ≤ 64 MB | $(median million 7) MB |
| idle statements per second | ≤ 1 | $(awk "BEGIN {printf \"%.1f\", $idle / 10}") |
| users/s | | $(median million 2) |
| the million took | | $(median million 3) s |
| database statements a batch | | $(median million 5) |
| WAL bytes a batch | | $(median million 4) |
| dead rows left of the push's tables | | $(median million 6) |
| processor time of the server a batch | | $(median million 8) µs |
TEXT
