# shellcheck shell=bash
# Functions shared by the benchmarks that have databases of their own, and send pushes. Sourced, not executed. They need
# $programs and $dev_url.
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
    start_nginx sink sink PORT="$port" TIMED_PORT="$timed_port" TLS_PORT="$tls_port" CERTIFICATE="$work/certificate.pem" \
        KEY="$work/key.pem"
    wait_for sink curl -sf "http://127.0.0.1:$port/"
}

# create_database NAME: creates a database beside that of push-server dev, with the tables of the migrations in this folder. Makes
# it that of sql and of servers.
create_database() {
    psql --quiet "$dev_url" --command "CREATE DATABASE $1"
    # The URL of dev.env with another database name.
    DATABASE_URL=$(sed -E "s|/[^/?]*(\?.*)?\$|/$1\1|" <<<"$dev_url")
    export DATABASE_URL
    migrate
}

# register_users NUMBER: registers that many users, with a device each.
register_users() {
    sql >/dev/null <<SQL
INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision)
SELECT id, 'phone', 'fcm', md5(id::text) || md5(id::text || 'x') || repeat('k', 88), 1
FROM generate_series(1, $1) AS id;
VACUUM ANALYZE;
SQL
}

# serve SINK_PORT: starts the server, which sends to that port, and sets $url.
serve() {
    start_server serve KAKAO_API_URL="http://127.0.0.1:$1" KAKAO_MAX_CONCURRENT_REQUESTS=$connections
    wait_ready serve
    url=$(url serve)
}

api() { curl -sS --fail-with-body -H "Authorization: Bearer $OPERATOR_KEY" "$@"; }

# post AUDIENCE [MEMBERS]: creates a push, with further members of its JSON, and prints its id.
post() {
    api "$url/v1/pushes" -H 'Content-Type: application/json' -d "{\"audience\":$1,\"message\":$message${2:-}}" |
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
