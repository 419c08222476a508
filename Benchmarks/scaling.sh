# shellcheck shell=bash
# The benchmark of scripts/bench scaling. Sourced, not executed.
# shellcheck disable=SC2154

# shellcheck source=Benchmarks/pushes.sh
. Benchmarks/pushes.sh

# The numbers of devices, each of a different user.
sizes=(1000000 10000000)
# The rows of each of the tables that grow (Benchmarks/scaling.sql).
rows=1000000

install_requirements wrk nginx postgresql-contrib
start_push_server
dev_url=$DATABASE_URL
start_sink
kakao_port=$(free_port)
start_nginx kakao kakao PORT="$kakao_port"
wait_for kakao curl -sf "http://127.0.0.1:$kakao_port/v1/push/register"

# bytes_of TABLE ROWS: prints the bytes for each row of a table, of each of its indexes, and of all together.
bytes_of() {
    sql --field-separator ' ' --command "
        SELECT relname, round(pg_relation_size(oid)::numeric / $2)
        FROM pg_class
        WHERE oid = '$1'::regclass OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = '$1'::regclass)
        UNION ALL
        SELECT 'all', round(pg_total_relation_size('$1')::numeric / $2)"
}

declare -A urls=() databases=()
for size in "${sizes[@]}"; do
    say "$size devices"
    create_database "scaling_$size"
    databases[$size]=$DATABASE_URL
    # The devices as the server stores them once Kakao has confirmed them, in pieces: one statement would keep a row of each for
    # its trigger.
    for ((first = 1; first <= size; first += 500000)); do
        sql <<SQL
INSERT INTO devices (
    user_id, device_id, push_type, push_token, locale, timezone, app_version, kakao_revision, expires_at, renew_at
)
SELECT id, 'a3f5c1d2-' || left(md5(id::text), 27), 'fcm', md5(id::text) || repeat('k', 120), 'ko-KR', 'Asia/Seoul', '3.1.4', 1,
    now() + interval '30 days', now() + interval '23 days' - random() * interval '1 day'
FROM generate_series($first, least($first + 499999, $size)) AS id;
SQL
    done
    sql --command 'VACUUM ANALYZE' --command CHECKPOINT
    bytes_of devices "$size" | sed 's/^/  bytes a device: /'
    # New devices of users beyond those, from others in each round.
    cat >"$work/register-$size.lua" <<LUA
local thread = 0
function setup(given)
    given:set("first", os.time() * 1000000 + thread * 1000000000)
    thread = thread + 1
end
local count = 0
function request()
    count = count + 1
    local id = string.format("%.0f", first + count)
    return wrk.format("POST", "/v1/push/register",
        {["Authorization"] = "KakaoAK $OPERATOR_KEY", ["Content-Type"] = "application/x-www-form-urlencoded"},
        "uuid=" .. id .. "&device_id=phone&push_type=gcm&push_token=" .. id .. string.rep("k", 136))
end
$(reported_failures)
LUA
    cat >"$work/tokens-$size.lua" <<LUA
function request()
    return wrk.format("GET", "/v1/push/tokens?uuid=" .. math.random(1, $size), {["Authorization"] = "KakaoAK $OPERATOR_KEY"})
end
$(reported_failures)
LUA
done

for round in $(seq "$rounds"); do
    for size in "${sizes[@]}"; do
        DATABASE_URL=${databases[$size]}
        start_server serve KAKAO_API_URL="http://127.0.0.1:$kakao_port"
        wait_ready serve
        drive "tokens-$size" serve --script "$work/tokens-$size.lua" "$(url serve)"
        drive "register-$size" serve --script "$work/register-$size.lua" "$(url serve)"
        stop serve
        sql --command "DELETE FROM devices WHERE device_id = 'phone'" --command 'VACUUM devices' >/dev/null
        serve "$port"
        id=$(post '{"everyone":true}')
        wait_done 900 "$id"
        sql --field-separator ' ' --command "
            SELECT extract(epoch FROM prepared_at - created_at), extract(epoch FROM finished_at - created_at)
            FROM pushes
            WHERE id = '$id'" >>"$work/push-$size.series"
        stop serve
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
