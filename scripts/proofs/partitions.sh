# shellcheck shell=bash
# Link callbacks arrive, are listed, counted, delivered and deleted as before while and after their table is partitioned.
#
# usage: scripts/prove partitions [--rows N] [--rate N] [--seconds N] [--partitions N]
#
# ROWS (50,000) callbacks of the last 400 days are stored. A server gets RATE (200) more a second over 16 connections, of which every
# third repeats the name (X-Kakao-Resource-ID) of the previous one. After SECONDS (10) deploy/partition-link-callbacks.sql makes
# link_callbacks a table of PARTITIONS (8), and SECONDS later the calls end. Then a migration of a later version adds a column, an index
# and a check, and the server starts again, with a retention of 100 days. Checks at the end:
#
#   - Every call was answered 200, within the 3 s that Kakao waits.
#   - Every name that was answered 200 is stored once. The other callbacks are as they were, those of 100 days and more are deleted.
#   - The list in pages and the exports have every row, each filter those that it matches, the statistics every new callback, and the
#     endpoint of webhooks each of them. The erasure of a user removes the user's id.
#   - The indexes have the same names and definitions as before, in each partition.
#   - No statement of the server has read a whole partition (auto_explain).
#
# Prints the counts, and exits with 1 if a check fails.

# shellcheck disable=SC2154
read_numbers rows=50000 rate=200 seconds=10 partitions=8 -- "$@"
install_requirements python3
# shellcheck source=scripts/servers.sh
. scripts/servers.sh
build push-server kakao-sandbox
start_postgres session_preload_libraries=auto_explain auto_explain.log_min_duration=0 auto_explain.log_analyze=on auto_explain.log_timing=off
export OPERATOR_KEY=operator-key-of-the-partitions-0123456789 JOURNAL_DIRECTORY=$work/journal CALLBACKS_USER_ID_ARGUMENT=product_id
start_sandbox
WEBHOOKS_URL=$sandbox/webhooks
WEBHOOKS_SECRET=whsec_$(openssl rand -base64 32)
export WEBHOOKS_URL WEBHOOKS_SECRET SANDBOX_URL=$sandbox
# The two roles of docs/deployment.md. The other one, which sql uses, owns the tables.
sql <<'SQL'
CREATE ROLE push LOGIN;
GRANT USAGE ON SCHEMA public TO push;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO push;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO push;
SQL
migrate
server_settings=(DATABASE_URL="${DATABASE_URL/postgres@/push@}" DATABASE_MIGRATE=false)

# The indexes of link_callbacks, and those of its partitions.
list_indexes() {
    sql --command "SELECT regexp_replace(indexdef, 'ON (ONLY )?', 'ON ') FROM pg_indexes WHERE tablename = 'link_callbacks' ORDER BY indexname"
}
# A digest of the rows that were stored before the calls, of the last 99 days.
digest() {
    sql --command "SELECT count(*), md5(string_agg(md5(callback::text), '' ORDER BY key))
        FROM link_callbacks AS callback WHERE key LIKE 'row-%' AND substr(key, 5)::integer < $rows * 99 / 399"
}

say "$rows rows are stored"
sql --set rows="$rows" <<'SQL'
INSERT INTO link_callbacks (key, id, chat_type, hash_chat_id, template_id, args, received_at, stored_at)
SELECT 'row-' || n, overlay(gen_random_uuid()::text PLACING substr(uuid_v7_floor(at)::text, 1, 15) FROM 1)::uuid,
    CASE n % 2 WHEN 0 THEN 'MultiChat' ELSE 'DirectChat' END, '147bp3dASTS0', n % 100, jsonb_build_object('product_id', 'row-' || n), at, at
FROM generate_series(1, :rows) AS n, LATERAL (SELECT now() - n * interval '399 days' / :rows AS at) AS received;
SQL
list_indexes >"$work/indexes"
before=$(digest)
start_server server "${server_settings[@]}"
wait_ready server
port=$(url server)
port=${port##*:}

say "$rate callbacks a second arrive, and the table is partitioned"
start client python3 scripts/proofs/outage.py "$port" "$rate" 16 "$KAKAO_ADMIN_KEY" "$work/accepted"
sleep "$seconds"
begin=$EPOCHREALTIME
psql --quiet "$DATABASE_URL" --set partitions="$partitions" --file deploy/partition-link-callbacks.sql
echo "partitioned in $(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $begin}") s"
sleep "$seconds"
check_running client server
kill -TERM "${processes[client]}"
wait "${processes[client]}" || fail "outage.py failed: $(<"$work/client.log")"
unset "processes[client]"
read -r calls answered accepted refused broken median p99 slowest <"$work/client.out"
echo "$calls calls, $answered answered: $accepted names; median $median ms, 99 % $p99 ms, slowest $slowest ms"
diff "$work/indexes" <(list_indexes) || fail "the indexes differ, see above"
[ "$(sql --command "SELECT count(*) FROM pg_inherits WHERE inhparent = 'link_callbacks'::regclass")" = "$partitions" ] ||
    fail "there are not $partitions partitions"

say "A later version migrates, and the server starts again"
stop server
mkdir "$work/later"
cp -r migrations "$work/later"
next=$(find migrations -maxdepth 1 -name '*.sql' | wc -l)
cat >"$work/later/migrations/$(printf %04d $((next + 1)))_later.sql" <<'SQL'
-- A later version.
ALTER TABLE link_callbacks ADD COLUMN later text NOT NULL DEFAULT 'later', ADD CONSTRAINT later CHECK (later <> '');
CREATE INDEX link_callbacks_later ON link_callbacks (chat_type, id);
DROP INDEX link_callbacks_later;
ALTER TABLE link_callbacks DROP COLUMN later;
SQL
"$programs/push-server" migrate --migrations "$work/later/migrations"
lines=$(wc -l <"$work/postgres/log")
# A server of the later version: its migrations come from the folder.
start server env HTTP_PORT=0 HTTP_DRAIN_SECONDS=0 LOG_LEVEL=notice "${server_settings[@]}" CALLBACKS_RETENTION_DAYS=100 \
    "$programs/push-server" serve --migrations "$work/later/migrations"
wait_ready server
SERVER_URL=$(url server)
export SERVER_URL
# Its plan is not one of the server.
is_drained() { [ "$(sql --command "SET auto_explain.log_min_duration = -1" --command "SELECT count(*) FROM link_callbacks WHERE received_at < now() - interval '100 days'")" = 0 ]; }
wait_until 180 "retention" is_drained
python3 scripts/proofs/partitions.py "$work/accepted" "$rows"
stop server
tail -n +"$lines" "$work/postgres/log" >"$work/plans"
# An index scan without a condition has to end early.
awk '
    function finish() {
        if (scan != "" && read > 100) {print scan; status = 1}
        scan = ""
    }
    /->/ {finish()}
    /Scan (.* )?on link_callbacks_[0-9]/ {
        finish()
        scan = $0
        read = /never executed/ ? 0 : /Seq Scan/ ? 1e9 : match($0, /actual rows=[0-9]+/) ? substr($0, RSTART + 12, RLENGTH - 12) : 0
    }
    /Rows Removed by Filter:/ {read += $NF}
    /Cond:/ {scan = ""}
    END {finish(); exit status}
' "$work/plans" || fail "a statement has read a whole partition, see above"
grep -q 'on link_callbacks_[0-9]' "$work/plans" || fail "the log has no plans"
[ "$(digest)" = "$before" ] || fail "the callbacks from before have changed: $before, now $(digest)"
[ "$refused$broken" = 00 ] || fail "$refused calls were not answered 200, and $broken not at all"
awk "BEGIN {exit !($slowest < 3000)}" || fail "a call was answered after $slowest ms, later than the 3 s that Kakao waits"
