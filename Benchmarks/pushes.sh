# shellcheck shell=bash
# Functions shared by the benchmarks that send pushes. Sourced, not executed. They need $program and $dev_url.
# shellcheck disable=SC2154

# The server's limit of requests in flight, the connections of wrk, and the clients of pgbench.
connections=32
message='{"for_gcm":{"custom_field":{"title":"Flash sale","text":"Everything is half price until midnight","link":"https://example.com/sale"}}}'

# Starts nginx in place of Kakao: it accepts every request at once. Sets $port; $timed_port, on which it also logs
# the time of each request; and $tls_port, on which it has the certificate $work/certificate.pem for localhost.
start_sink() {
    local ports
    mapfile -t ports < <(for _ in {1..20}; do free_port && echo; done | sort --unique | shuf --head-count 3)
    [ "${#ports[@]}" = 3 ] || fail "there are no three free ports"
    port=${ports[0]} timed_port=${ports[1]} tls_port=${ports[2]}
    create_certificate
    sed "s|@PORT@|$port|; s|@TIMED_PORT@|$timed_port|; s|@TLS_PORT@|$tls_port|; s|@CERTIFICATE@|$work/certificate.pem|; s|@KEY@|$work/key.pem|" \
        scripts/peers/sink.conf >"$work/sink.conf"
    start sink nginx -p "$work" -c "$work/sink.conf" -e "$work/sink.error.log"
    wait_for sink curl -sf "http://127.0.0.1:$port/"
}

# create_database NAME USERS: creates a database with that many registered users, and makes it that of sql and serve.
create_database() {
    psql --quiet "$dev_url" --command "CREATE DATABASE $1"
    # The URL of dev.env with another database name.
    DATABASE_URL=$(sed -E "s|/[^/?]*(\?.*)?\$|/$1\1|" <<<"$dev_url")
    export DATABASE_URL
    "$program" migrate >/dev/null 2>&1 || fail "push-server migrate failed"
    sql >/dev/null <<SQL
INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision)
SELECT id, 'phone', 'fcm', md5(id::text) || md5(id::text || 'x') || repeat('k', 88), 1
FROM generate_series(1, $2) AS id;
VACUUM ANALYZE;
SQL
}

sql() { psql --quiet --no-align --tuples-only "$DATABASE_URL" "$@"; }

# serve SINK_PORT: starts the server, which sends to that port, and sets $url.
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

# post AUDIENCE: creates a push and prints its id.
post() {
    api "$url/v1/pushes" -H 'Content-Type: application/json' -d "{\"audience\":$1,\"message\":$message}" |
        sed -E 's/^\{"id":"([^"]*)".*/\1/'
}

# wait_done SECONDS ID: waits until the push is done. A single session polls: starting psql for each poll takes a tenth
# of this machine.
wait_done() {
    sql >/dev/null --command "SET statement_timeout = '$1s'" --command "DO \$\$ BEGIN
        WHILE (SELECT state FROM pushes WHERE id = '$2') <> 'done' LOOP
            COMMIT;
            PERFORM pg_sleep(0.02);
        END LOOP;
    END \$\$" || fail "the push was not done within $1 s"
}
