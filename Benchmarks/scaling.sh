# shellcheck shell=bash
# The benchmark of scripts/bench scaling. Sourced, not executed.
# shellcheck disable=SC2154

# shellcheck source=Benchmarks/pushes.sh
. Benchmarks/pushes.sh

# The numbers of devices, each of a different user.
sizes=($((devices / 10)) "$devices")
# The rows of each of the tables that grow (Benchmarks/scaling.sql).
rows=$((devices / 10))

install_requirements wrk nginx postgresql-contrib
build --release push-server
# As a machine with 8 GB would have it. Few checkpoints, after each of which every changed page is logged once more.
start_postgres shared_buffers=2GB max_wal_size=8GB checkpoint_timeout=30min
dev_url=$DATABASE_URL
export OPERATOR_KEY=operator-key-of-the-benchmark-0123456789 KAKAO_ADMIN_KEY=admin-key-of-the-benchmark
start_sink
kakao_port=$(free_port)
start_nginx kakao kakao PORT="$kakao_port"
wait_for kakao curl -sf "http://127.0.0.1:$kakao_port/v1/push/register"

# describe_devices SIZE: prints the bytes for each device of the table and of each of its indexes, and the levels of B-trees.
describe_devices() {
    sql --command "CREATE EXTENSION pageinspect" --field-separator ' ' --command "
        SELECT relname, round(pg_relation_size(class.oid)::numeric / $1, 1),
            CASE amname WHEN 'btree' THEN 'levels ' || (SELECT level + 1 FROM bt_metap(class.oid::regclass::text)) END
        FROM pg_class AS class
        JOIN pg_am ON pg_am.oid = relam
        WHERE class.oid = 'devices'::regclass OR class.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'devices'::regclass)
        ORDER BY relname" | sed 's/^/  bytes a device: /'
}

# Prints what all sessions so far have cost: the pages of devices and of its indexes that they have read from memory or the disk, the
# bytes of the log, and the CPU time in clock ticks. They report these at their end.
work_done() {
    wait_until 60 "the end of other sessions" is_alone
    sql --field-separator ' ' --command "
        SELECT heap_blks_read + heap_blks_hit, idx_blks_read + idx_blks_hit, pg_current_wal_lsn() - '0/0',
            $(sed 's/.*) //' "/proc/$(head -n 1 "$work/postgres/data/postmaster.pid")/stat" | awk '{print $14 + $15}')
        FROM pg_statio_user_tables
        WHERE relname = 'devices'"
}

is_alone() {
    [ "$(sql --command "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")" = 1 ]
}

# measure SERIES COUNT_COMMAND COMMAND [ARGUMENT ...]: runs a command with a server, and adds to the series SERIES-work for each of the
# operations that COUNT_COMMAND prints: the pages of the table, those of its indexes, the bytes of the log, and µs of PostgreSQL.
measure() {
    local before
    before=$(work_done)
    "${@:3}"
    stop serve
    awk -v count="$($2)" -v hertz="$(getconf CLK_TCK)" '
        NR == 1 {for (i = 1; i <= 4; i++) before[i] = $i}
        NR == 2 {
            printf "%.2f %.2f %.0f %.1f\n", ($1 - before[1]) / count, ($2 - before[2]) / count, ($3 - before[3]) / count,
                ($4 - before[4]) / count * 1000000 / hertz
        }
    ' <<<"$before"$'\n'"$(work_done)" >>"$work/$1-work.series"
}
# Prints the number of requests of the last run of wrk.
requests() { awk '$2 == "requests" {print $1}' "$work/wrk"; }

# request KIND SIZE: runs wrk with the script KIND-SIZE against a new server.
request() {
    start_server serve KAKAO_API_URL="http://127.0.0.1:$kakao_port"
    wait_ready serve
    drive "$1-$2" serve --script "$work/$1-$2.lua" "$(url serve)"
}

# push SIZE: sends a push to everyone.
push() {
    local id
    serve "$port"
    id=$(post '{"everyone":true}')
    wait_done 1800 "$id"
    sql --field-separator ' ' --command "
        SELECT extract(epoch FROM prepared_at - created_at), extract(epoch FROM finished_at - created_at)
        FROM pushes
        WHERE id = '$id'" >>"$work/push-$1.series"
}

declare -A databases=()
for size in "${sizes[@]}"; do
    begin=$EPOCHREALTIME
    create_database "scaling_$size"
    databases[$size]=$DATABASE_URL
    # The devices as the server stores them once Kakao has confirmed them. Users come in any order, so that neighbours in an index are far
    # apart in the table; the multiplier has no divisor in common with a power of ten. The indexes are built afterwards, in a tenth of
    # the time, with the free space that insertions in any order leave in B-trees (30 %).
    sql --set ON_ERROR_STOP=1 <<SQL
SET session_replication_role = replica;
SET maintenance_work_mem = '1GB';
-- Only sessions read the table.
ALTER TABLE devices SET (autovacuum_enabled = false);
UPDATE pg_index SET indisready = false, indisvalid = false WHERE indrelid = 'devices'::regclass;
INSERT INTO devices (
    user_id, device_id, push_type, push_token, locale, timezone, app_version, kakao_revision, expires_at, renew_at
)
SELECT (id * 2654435761 % $size + 1) * 1000, 'a3f5c1d2-' || left(md5(id::text), 27), 'fcm', md5(id::text) || repeat('k', 120),
    'ko-KR', 'Asia/Seoul', '3.1.4', 1, now() + interval '30 days', now() + interval '23 days' - random() * interval '1 day'
FROM generate_series(1, $size) AS id;
UPDATE pg_index SET indisready = true, indisvalid = true WHERE indrelid = 'devices'::regclass;
ALTER INDEX devices_pkey SET (fillfactor = 70);
ALTER INDEX devices_renew_at SET (fillfactor = 70);
REINDEX TABLE devices;
SQL
    sql --command 'VACUUM ANALYZE' --command CHECKPOINT
    say "$size devices, stored in $(awk "BEGIN {printf \"%d\", $EPOCHREALTIME - $begin}") s"
    describe_devices "$size"
    # New devices of users among those.
    cat >"$work/register-$size.lua" <<LUA
math.randomseed(os.time())
function request()
    local id = string.format("%.0f", math.random(1, $size) * 1000 + math.random(1, 999))
    return wrk.format("POST", "/v1/push/register",
        {["Authorization"] = "KakaoAK $OPERATOR_KEY", ["Content-Type"] = "application/x-www-form-urlencoded"},
        "uuid=" .. id .. "&device_id=phone&push_type=gcm&push_token=" .. id .. string.rep("k", 136))
end
$(reported_failures)
LUA
    cat >"$work/tokens-$size.lua" <<LUA
math.randomseed(os.time())
function request()
    return wrk.format("GET", "/v1/push/tokens?uuid=" .. string.format("%.0f", math.random(1, $size) * 1000),
        {["Authorization"] = "KakaoAK $OPERATOR_KEY"})
end
$(reported_failures)
LUA
done

for round in $(seq "$rounds"); do
    for size in "${sizes[@]}"; do
        DATABASE_URL=${databases[$size]}
        measure "tokens-$size" requests request tokens "$size"
        measure "register-$size" requests request register "$size"
        sql --command "DELETE FROM devices WHERE device_id = 'phone'" --command 'VACUUM devices' >/dev/null
        measure "push-$size" "echo $size" push "$size"
        echo "round $round, $size devices: look-ups $(last "tokens-$size" 1)/s, registrations $(last "register-$size" 1)/s," \
            "push prepared in $(last "push-$size" 1) s, done in $(last "push-$size" 2) s"
    done
done

# Rows of what a push leaves until it is removed.
for size in "${sizes[@]}"; do
    DATABASE_URL=${databases[$size]}
    sql --command "
        SELECT round(sum(pg_total_relation_size(name::regclass))::numeric / $rounds / $size, 2)
        FROM unnest('{push_parts,push_claims,push_batches,push_counts}'::text[]) AS name" |
        sed "s/^/  bytes a user of a push to $size: /"
done

say "$rows rows of each table that grows"
create_database scaling_rows
sql --set rows=$rows --file Benchmarks/scaling.sql >/dev/null
printf '\n| table | bytes a row | of it indexes |\n| --- | --- | --- |\n'
sql --field-separator ' | ' --command "
    SELECT relname, round(pg_total_relation_size(oid) / reltuples::numeric), round(pg_indexes_size(oid) / reltuples::numeric)
    FROM pg_class
    WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND reltuples > $rows / 100
    ORDER BY relname" | sed 's/^/| /; s/$/ |/'

printf '\n| devices | look-ups/s | p99 | registrations/s | p99 | push prepared | push done |\n| --- | --- | --- | --- | --- | --- | --- |\n'
for size in "${sizes[@]}"; do
    printf '| %s | %s | %s ms | %s | %s ms | %s s | %s s |\n' "$size" "$(median "tokens-$size" 1)" "$(median "tokens-$size" 3)" \
        "$(median "register-$size" 1)" "$(median "register-$size" 3)" "$(median "push-$size" 1)" "$(median "push-$size" 2)"
done
printf '\n| operation | devices | pages of the table | of its indexes | log | CPU time of PostgreSQL | of the server |\n'
printf '| --- | --- | --- | --- | --- | --- | --- |\n'
for kind in tokens register push; do
    for size in "${sizes[@]}"; do
        series=$kind-$size-work
        # The time of the server is known of requests.
        [ "$kind" = push ] && server='' || server="$(median "$kind-$size" 4) µs"
        printf '| %s | %s | %s | %s | %s bytes | %s µs | %s |\n' "$kind" "$size" "$(median "$series" 1)" "$(median "$series" 2)" \
            "$(median "$series" 3)" "$(median "$series" 4)" "$server"
    done
done
