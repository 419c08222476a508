# shellcheck shell=bash
# The benchmark of scripts/bench imports. Sourced, not executed.
# shellcheck disable=SC2154

columns='user_id, device_id, push_type, push_token, locale, timezone, app_version, tags, created_at, updated_at'
columns+=', kakao_revision, next_attempt_at, expires_at, renew_at'

start_push_server

# seconds_of COMMAND [ARGUMENT ...]: runs the command and prints how long it took.
seconds_of() {
    local from=$EPOCHREALTIME
    "$@"
    awk -v from="$from" -v to="$EPOCHREALTIME" 'BEGIN {printf "%.2f\n", to - from}'
}

import() {
    curl -sS --fail-with-body --output "$work/imported" --header "Authorization: Bearer $OPERATOR_KEY" --header 'Expect:' \
        --header 'Content-Type: application/x-ndjson' --upload-file "$work/lines" --request POST "$SERVER_URL/v1/devices/import"
}

copy() {
    psql --quiet "$DATABASE_URL" --command "COPY reference ($columns) FROM STDIN" <"$work/rows"
}

for count in 100000 300000 1000000; do
    say "$count devices"
    # In random order, as another system would export them.
    psql --quiet --no-align --tuples-only "$DATABASE_URL" --output "$work/lines" <<SQL
SELECT json_build_object('user_id', id, 'device_id', 'phone', 'push_type', 'fcm',
    'push_token', md5(id::text) || repeat('k', 120), 'locale', 'ko-KR', 'timezone', 'Asia/Seoul', 'app_version', '3.1.4',
    'updated_at', '2026-10-01T00:00:00Z', 'expires_at', now() + interval '30 days')
FROM generate_series(1, $count) AS id
ORDER BY md5(id::text || 'x');
SQL
    for ((round = 1; round <= rounds; round++)); do
        psql --quiet "$DATABASE_URL" <<'SQL' 2>"$work/psql.log"
TRUNCATE devices;
DROP TABLE IF EXISTS reference;
CREATE TABLE reference (LIKE devices INCLUDING DEFAULTS INCLUDING STORAGE);
CREATE UNIQUE INDEX ON reference (user_id, device_id, push_type) INCLUDE (withdrawn);
CREATE INDEX ON reference USING hash (push_token);
CHECKPOINT;
SQL
        seconds_of import >>"$work/import-$count.series"
        grep -q "\"created\":$count," "$work/imported" || fail "not all devices were imported: $(<"$work/imported")"
        psql --quiet "$DATABASE_URL" --command "COPY devices ($columns) TO STDOUT" >"$work/rows"
        psql --quiet "$DATABASE_URL" --command CHECKPOINT
        seconds_of copy >>"$work/copy-$count.series"
        say "$count devices, round $round: import $(last "import-$count" 1) s, COPY $(last "copy-$count" 1) s"
    done
done
for count in 100000 300000 1000000; do
    printf '%8d devices: import %6.2f s, COPY %6.2f s, rate against COPY %s\n' "$count" "$(median "import-$count" 1)" \
        "$(median "copy-$count" 1)" "$(ratio "$(median "copy-$count" 1)" "$(median "import-$count" 1)")"
done
