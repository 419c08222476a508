# shellcheck shell=bash
# The benchmark of scripts/bench fanout. Sourced, not executed.
# shellcheck disable=SC2154

# shellcheck source=Benchmarks/pushes.sh
. Benchmarks/pushes.sh

users=1000000
# The number of pushes to one user each, on an idle server, that measure the time until Kakao receives the first
# request.
small=200
# The number of users that are looked up in the push to everyone.
lookups=200
# The number of operators' pages that watch a push.
pages=50

install_requirements wrk nginx postgresql-contrib
start_push_server
dev_url=$DATABASE_URL
start_sink

say "Registering $users users"
create_database fanout
register_users "$users"
sql >/dev/null <<SQL
CREATE TABLE jobs (id bigint PRIMARY KEY, state text NOT NULL);
CREATE INDEX ON jobs (id) WHERE state = 'waiting';
SQL

metric() { api "$url/metrics" | awk -v name="$1" '$1 == name {printf "%d\n", $2}'; }

# The request of a full batch, for wrk.
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

# watched PAGES: sends to everyone in three seconds, while as many pages follow the events of the push and read the status; adds the
# batches a second to the series watched-PAGES. A single process has all connections of the pages.
watched() {
    local id time
    time=$(date --utc --date '3 seconds' +%FT%TZ)
    id=$(post '{"everyone":true}' ",\"send_at\":\"$time\"")
    {
        seq "$1" | sed "s|.*|$url/v1/pushes/$id/events|"
        seq $(($1 / 5)) | sed "s|.*|$url/v1/status|"
    } | sed "s|.*|url = &\noutput = /dev/null|" >"$work/pages"
    if [ "$1" -gt 0 ]; then
        api --no-buffer --parallel --parallel-immediate --parallel-max 100 --config "$work/pages" 2>/dev/null &
        local reader=$!
    fi
    wait_done 300 "$id"
    [ "$1" = 0 ] || wait "$reader" || fail "the pages could not follow the push"
    sql --command "SELECT ((next_number - 1) / extract(epoch FROM finished_at - '$time'))::integer FROM pushes WHERE id = '$id'" \
        >>"$work/watched-$1.series"
}

for round in $(seq "$rounds"); do
    # A new server for each push, so that the peak memory is that of one push.
    stop serve
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
    [ "${batches:-0}" -gt 0 ] || fail "the push was not sent to all $users users"
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
    pgbench_rate pgbench jobs "$connections"
    watched 0
    watched "$pages"
    echo "round $round: $(last million 1) batches/s ($(last million 3) s), wrk $(last wrk 1)/s, pgbench $(last pgbench 1)/s, watched $(last "watched-$pages" 1)/s, unwatched $(last watched-0 1)/s"
done

# Looks up users in the last push, over one connection.
shuf --input-range "1-$users" --head-count "$lookups" |
    sed "s|.*|url = $url/v1/pushes/$id/users/&\noutput = $work/lookup|" >"$work/lookups"
api --config "$work/lookups" --write-out '%{time_total}\n' | awk '{printf "%.1f\n", $1 * 1000}' >"$work/lookups.series"
[ "$(wc -l <"$work/lookups.series")" = "$lookups" ] || fail "not every user was found in the push"

# Latency: nginx and the database use the same clock of this machine. Each push is done before the next is created.
stop serve
serve "$timed_port"
sleep 1
idle=$(metric kakao_push_database_statements_total)
sleep 10
# One statement was the query for the metrics.
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
    # nginx continues at its old file position unless it reopens the file (USR1).
    kill -USR1 "${processes[sink]}"
    sleep 1
    id=$(post '{"everyone":true}')
    wait_done 300 "$id"
    sql --command "SELECT extract(epoch FROM created_at) FROM pushes WHERE id = '$id'" |
        awk -v first="$(sort -n "$work/sink.times" | head -1)" '{printf "%.0f\n", (first - $1) * 1000}' >>"$work/first.series"
done

percentile() { sort -n "$work/$1.series" | awk -v p="$2" '{v[NR] = $1} END {i = int(NR * p + 0.999); print v[i < 1 ? 1 : i]}'; }
cat <<TEXT

$users users, $connections requests in flight; medians of $rounds

| measure | target | measured |
| --- | --- | --- |
| batches/s against pgbench claim-and-complete of single rows | ≥ 3 | $(against million pgbench) |
| batches/s against wrk with the same request and connections | ≥ 0.5 | $(against million wrk) |
| POST /v1/pushes to everyone → first request at Kakao | ≤ 250 ms | $(median first 1) ms |
| new push on an idle server → first request at Kakao, p99 | ≤ 20 ms | $(percentile small 0.99) ms (p50 $(percentile small 0.5) ms) |
| peak resident memory during the push to a million | ≤ 64 MB | $(median million 7) MB |
| a user looked up in the push to a million, p99 | ≤ 20 ms | $(percentile lookups 0.99) ms (p50 $(percentile lookups 0.5) ms) |
| idle statements per second | ≤ 1 | $(awk "BEGIN {printf \"%.1f\", $idle / 10}") |
| batches/s watched by $pages pages, against unwatched | ≥ 0.97 | $(against "watched-$pages" watched-0) |
| users/s | | $(median million 2) |
| total time for the million | | $(median million 3) s |
| database statements for each batch | | $(median million 5) |
| WAL bytes for each batch | | $(median million 4) |
| dead rows left in the push tables | | $(median million 6) |
| CPU time of the server for each batch | | $(median million 8) µs |
TEXT
