# shellcheck shell=bash
# The benchmark of scripts/bench callbacks --endpoints N. Sourced by callbacks.sh, not executed.
# shellcheck disable=SC2154

# shellcheck source=Benchmarks/pushes.sh
. Benchmarks/pushes.sh
# shellcheck source=Benchmarks/receivers.sh
. Benchmarks/receivers.sh

dev_url=$DATABASE_URL
# A server without endpoints, one whose webhooks wait, since its endpoints are gone, and one that delivers them.
versions=(without waiting delivered)
declare -A databases=() urls=()
mapfile -t names < <(seq --format 'receiver-%g' "$endpoints")
start_receivers "${names[@]/#/waiting-}" "${names[@]/#/delivered-}"
for version in "${versions[@]}"; do
    create_database "$version"
    databases[$version]=$DATABASE_URL
    settings=()
    [ "$version" = without ] || webhook_settings "${names[@]/#/$version-}"
    start_server "$version" KAKAO_API_URL="$SANDBOX_URL" KAKAO_CA_CERTIFICATE_FILE="$SANDBOX_CERTIFICATE" "${settings[@]}"
    wait_ready "$version"
    urls[$version]=$(url "$version")
done

for name in "${names[@]}"; do fail_requests "waiting-$name" '"kind":"status","status":410'; done
DATABASE_URL=${databases[waiting]}
curl -sSf "${urls[waiting]}/kakao/link/callback?CHAT_TYPE=DirectChat&HASH_CHAT_ID=147bp3dASTS0o1TpKdKykq2a&TEMPLATE_ID=3135" \
    --header "Authorization: KakaoAK $KAKAO_ADMIN_KEY" >/dev/null
are_gone() { [ "$(sql --command "SELECT count(*) FROM webhook_endpoints WHERE state = 'gone'")" = "$endpoints" ]; }
wait_until 60 "the endpoints to be gone" are_gone

# Whether the callbacks are counted, and the webhooks delivered unless their endpoints are gone.
is_idle() {
    [ "$(sql --command "SELECT EXISTS (SELECT FROM share_events) OR EXISTS (
        SELECT FROM webhook_events AS event JOIN webhook_endpoints AS endpoint ON endpoint.name = event.endpoint
        WHERE endpoint.state <> 'gone' AND event.state <> 'delivered')")" = f ]
}
position() { sql --field-separator ' ' --command "SELECT pg_current_wal_lsn() - '0/0', (SELECT count(*) FROM link_callbacks)"; }

for round in $(seq "$rounds"); do
    for index in 0 1 2; do
        # Each comes first in every third round.
        version=${versions[(index + round) % 3]}
        DATABASE_URL=${databases[$version]}
        sql --command CHECKPOINT
        read -r wal callbacks <<<"$(position)"
        drive "$version" "$version" --script "$work/callbacks.lua" --header "Authorization: KakaoAK $KAKAO_ADMIN_KEY" \
            "${urls[$version]}/kakao/link/callback"
        wait_until 300 "the callbacks to be counted, and the webhooks to be delivered" is_idle
        awk -v wal="$wal" -v callbacks="$callbacks" '{printf "%.0f\n", ($1 - wal) / ($2 - callbacks)}' <<<"$(position)" >>"$work/wal-$version.series"
        # Autovacuum would do so while another version is measured.
        sql --command VACUUM
    done
    echo "round $round: without an endpoint $(last without 1)/s, while webhooks wait $(last waiting 1)/s, while they are delivered $(last delivered 1)/s"
done

cat <<TEXT

$endpoints endpoint(s) that want callbacks; medians of $rounds, and of the rounds' ratios with their intervals

| measure | without | webhooks wait | webhooks are delivered |
| --- | --- | --- | --- |
| callbacks/s, 64 connections | $(median without 1) | $(median waiting 1) | $(median delivered 1) |
| against without an endpoint (target ≥ 0.80 while they wait) | | $(ratios waiting without 1) | $(ratios delivered without 1) |
| p99 | $(median without 3) ms | $(median waiting 3) ms | $(median delivered 3) ms |
| CPU time of the server for each callback | $(median without 4) µs | $(median waiting 4) µs | $(median delivered 4) µs |
| log (WAL) for each callback, counted and delivered | $(median wal-without 1) bytes | $(median wal-waiting 1) bytes | $(median wal-delivered 1) bytes |
TEXT
