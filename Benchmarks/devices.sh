# shellcheck shell=bash
# The benchmark of scripts/bench devices. Sourced, not executed.
# shellcheck disable=SC2154

# shellcheck source=Benchmarks/pushes.sh
. Benchmarks/pushes.sh

# The numbers of devices, each of a different user.
sizes=(10000 5000000)
# The number of users who call. They are spread evenly over all users, and few enough for the server's cache of access
# tokens.
callers=8192

install_requirements wrk nginx postgresql-contrib
start_push_server
dev_url=$DATABASE_URL
kakao_port=$(free_port)
start_nginx kakao kakao PORT="$kakao_port"
wait_for kakao curl -sf "http://127.0.0.1:$kakao_port/v1/push/register"

declare -A urls=() databases=()
for size in "${sizes[@]}"; do
    say "Registering $size devices"
    create_database "devices_$size"
    databases[$size]=$DATABASE_URL
    # The devices as the server stores them once Kakao has confirmed them.
    sql <<SQL
INSERT INTO devices (
    user_id, device_id, push_type, push_token, locale, timezone, app_version, kakao_revision, expires_at, renew_at
)
SELECT id, 'phone', 'fcm', md5(id::text) || repeat('k', 120), 'ko-KR', 'Asia/Seoul', '3.1.4', 1, now() + interval '30 days',
    now() + interval '23 days' - random() * interval '1 day'
FROM generate_series(1, $size) AS id;
VACUUM ANALYZE;
CHECKPOINT;
SQL
    start_server "serve-$size" KAKAO_API_URL="http://127.0.0.1:$kakao_port" KAKAO_APP_ID=1 IDENTITY_KAKAO_ACCESS_TOKEN=true \
        DEVICES_REQUESTS_PER_MINUTE_PER_USER=0 DEVICES_REQUESTS_PER_MINUTE_PER_ADDRESS=0
    wait_ready "serve-$size"
    urls[$size]=$(url "serve-$size")
    sql --field-separator ' ' --output "$work/tokens-$size" --command "
        SELECT user_id, push_token
        FROM generate_series(0, $callers - 1) AS place
        JOIN devices ON user_id = 1 + place * ($size / $callers)"
    # A repeated registration, as an app sends it at each start.
    random_requests "$work/tokens-$size" >"$work/register-$size.lua" <<'LUA'
function format(id, token)
    return wrk.format("POST", "/v1/push/register",
        {["Authorization"] = "Bearer user-" .. id, ["Content-Type"] = "application/x-www-form-urlencoded"},
        "device_id=phone&push_type=gcm&locale=ko-KR&timezone=Asia%2FSeoul&app_version=3.1.4&push_token=" .. token)
end
LUA
    random_requests "$work/tokens-$size" >"$work/tokens-$size.lua" <<'LUA'
function format(id)
    return wrk.format("GET", "/v1/push/tokens?uuid=" .. id, {["Authorization"] = "Bearer user-" .. id})
end
LUA
    cat >"$work/upsert-$size.sql" <<SQL
\set user_id 1 + random(0, $callers - 1) * ($size / $callers)
INSERT INTO devices (user_id, device_id, push_type, push_token, locale, timezone, app_version, tags)
VALUES (:user_id, 'phone', 'fcm', md5((:user_id)::text) || repeat('k', 120), 'ko-KR', 'Asia/Seoul', '3.1.4', '{}')
ON CONFLICT (user_id, device_id, push_type) DO UPDATE
SET push_token = excluded.push_token, locale = excluded.locale, timezone = excluded.timezone, app_version = excluded.app_version,
    tags = excluded.tags, updated_at = now();
SQL
    cat >"$work/select-$size.sql" <<SQL
\set user_id 1 + random(0, $callers - 1) * ($size / $callers)
SELECT user_id, device_id, push_type, push_token, created_at, updated_at
FROM devices
WHERE user_id = :user_id AND NOT withdrawn
ORDER BY user_id, device_id, push_type;
SQL
done

for size in "${sizes[@]}"; do
    # Warms up: the server caches the tokens, and the WAL already has an image of each written page since the last
    # checkpoint.
    drive unmeasured "serve-$size" --script "$work/register-$size.lua" "${urls[$size]}"
done
for round in $(seq "$rounds"); do
    for size in "${sizes[@]}"; do
        drive "register-$size" "serve-$size" --script "$work/register-$size.lua" "${urls[$size]}"
        DATABASE_URL=${databases[$size]} pgbench_rate "upsert-$size" "upsert-$size"
        drive "tokens-$size" "serve-$size" --script "$work/tokens-$size.lua" "${urls[$size]}"
        DATABASE_URL=${databases[$size]} pgbench_rate "select-$size" "select-$size"
        echo "round $round, $size devices: registrations $(last "register-$size" 1)/s (pgbench $(last "upsert-$size" 1)/s)," \
            "look-ups $(last "tokens-$size" 1)/s (pgbench $(last "select-$size" 1)/s)"
    done
done
# Requests that were in flight when wrk ended are sent to Kakao in the background.
all_settled() {
    DATABASE_URL=${databases[$1]}
    [ "$(sql --command 'SELECT count(*) FROM devices WHERE kakao_revision < revision')" = 0 ]
}
for size in "${sizes[@]}"; do wait_until 60 "all calls to Kakao to finish" all_settled "$size"; done

# compared SERIES PEER: prints a row's cells for both sizes: the ratio to the peer and the medians.
compared() {
    local size
    for size in "${sizes[@]}"; do printf ' %s |' "$(against "$1-$size" "$2-$size")"; done
}
# of SERIES COLUMN UNIT: prints a row's cells for both sizes: the median of one column.
of() {
    local size
    for size in "${sizes[@]}"; do printf ' %s %s |' "$(median "$1-$size" "$2")" "$3"; done
}
cat <<TEXT

64 connections, 64 clients; medians of $rounds

| measure | target | ${sizes[0]} devices | ${sizes[1]} devices |
| --- | --- | --- | --- |
| registrations against pgbench upserting the same rows | ≥ 0.6 |$(compared register upsert)
| look-ups against pgbench selecting the same rows | ≥ 0.9 |$(compared tokens select)
| registrations, p99 | |$(of register 3 ms)
| look-ups, p99 | |$(of tokens 3 ms)
| CPU time of the server for each registration | |$(of register 4 µs)
| CPU time of the server for each look-up | |$(of tokens 4 µs)

Registrations at ${sizes[1]} devices against ${sizes[0]}: $(ratio "$(median "register-${sizes[1]}" 1)" "$(median "register-${sizes[0]}" 1)"); \
look-ups: $(ratio "$(median "tokens-${sizes[1]}" 1)" "$(median "tokens-${sizes[0]}" 1)") (target: within 0.15 of 1).
TEXT
