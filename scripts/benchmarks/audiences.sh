# shellcheck shell=bash
# The benchmark of scripts/bench audiences. Sourced, not executed.
# shellcheck disable=SC2154

users=500000

install_requirements nginx
start_push_server
dev_url=$DATABASE_URL
program=$(built push-server)
port=$(free_port)
timed_port=$(free_port)
while [ "$timed_port" = "$port" ]; do timed_port=$(free_port); done
sed "s|@PORT@|$port|; s|@TIMED_PORT@|$timed_port|" scripts/peers/sink.conf >"$work/sink.conf"
start sink nginx -p "$work" -c "$work/sink.conf" -e "$work/sink.error.log"
wait_for sink curl -sf "http://127.0.0.1:$port/"

message='{"for_gcm":{"custom_field":{"title":"Flash sale","text":"Everything is half price until midnight"}}}'

# serve_devices NAME COUNT: starts a server on a database of its own with COUNT registered users.
serve_devices() {
    local database_url
    psql --quiet "$dev_url" --command "CREATE DATABASE $1"
    database_url=$(sed -E "s|/[^/?]*(\?.*)?\$|/$1\1|" <<<"$dev_url")
    export DATABASE_URL=$database_url
    "$program" migrate >"$work/migrate.out" 2>&1 || fail "the migrations failed: $(tail -3 "$work/migrate.out")"
    psql --quiet "$DATABASE_URL" >"$work/psql.out" <<SQL
INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision)
SELECT id, 'phone', 'fcm', md5(id::text) || md5(id::text || 'x') || repeat('k', 88), 1
FROM generate_series(1, $2) AS id;
VACUUM ANALYZE;
SQL
    HTTP_PORT=0 KAKAO_API_URL=http://127.0.0.1:$port KAKAO_MAX_CONCURRENT_REQUESTS=32 LOG_LEVEL=notice \
        JOURNAL_DIRECTORY="$work/journal-$1" start "$1" "$program" serve
    wait_for "$1" grep -q Ready "$work/$1.log" "$work/$1.out"
    url=http://$(grep -ohE '127\.0\.0\.1:[0-9]+' "$work/$1.log" "$work/$1.out" | head -1)
}

# push SERIES AUDIENCE: sends a push and adds its users/s to the series.
push() {
    local id
    psql --quiet "$DATABASE_URL" --command 'VACUUM push_batches, push_claims, push_parts, push_counts' --command CHECKPOINT
    id=$(curl -sS --fail-with-body --header "Authorization: Bearer $OPERATOR_KEY" --json \
        "{\"audience\":$2,\"message\":$message}" "$url/v1/pushes" | sed -E 's/^\{"id":"([^"]*)".*/\1/')
    psql --quiet "$DATABASE_URL" >"$work/psql.out" <<SQL
DO \$\$ BEGIN WHILE (SELECT state FROM pushes WHERE id = '$id') <> 'done' LOOP COMMIT; PERFORM pg_sleep(0.02); END LOOP; END \$\$
SQL
    psql --quiet --no-align --tuples-only "$DATABASE_URL" --command \
        "SELECT round(users / extract(epoch FROM finished_at - created_at)) FROM pushes WHERE id = '$id'" >>"$work/$1.series"
}

# compare NAME COUNT STEP: compares a push to every STEPth of COUNT users with one to everyone.
compare() {
    say "$1: registering $2 users"
    serve_devices "$1" "$2"
    seq "$3" "$3" "$2" >"$work/ids"
    curl -sS --fail-with-body --output "$work/audience" --header "Authorization: Bearer $OPERATOR_KEY" \
        --header 'Content-Type: text/plain' --upload-file "$work/ids" "$url/v1/audiences/stored"
    for ((round = 1; round <= rounds; round++)); do
        push "$1-everyone" '{"everyone":true}'
        push "$1-stored" '{"audience":"stored"}'
        say "$1, round $round: everyone $(last "$1-everyone" 1), stored $(last "$1-stored" 1) users/s"
    done
    kill "${processes[$1]}"
    wait "${processes[$1]}" || fail "serve did not shut down cleanly: $(tail -3 "$work/$1.log")"
    unset "processes[$1]"
}

compare all "$users" 1
compare every_second $((2 * users)) 2
for name in all every_second; do
    printf '%-14s stored audience %9d users/s, everyone %9d users/s, ratio %s\n' "$name" \
        "$(median "$name-stored" 1)" "$(median "$name-everyone" 1)" \
        "$(ratio "$(median "$name-stored" 1)" "$(median "$name-everyone" 1)")"
done
