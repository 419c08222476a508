# shellcheck shell=bash
# The benchmark of scripts/bench pages. Sourced, not executed.
# shellcheck disable=SC2154

pages=1000

install_requirements python3
start_push_server
# Half of the pages follow this push, which has not begun; the others show the overview.
id=$(curl -sSf "$SERVER_URL/v1/pushes" --header "Authorization: Bearer $OPERATOR_KEY" --header 'Content-Type: application/json' \
    --data '{"audience":{"uuids":[1]},"send_at":"2099-01-01T00:00:00Z","message":{"for_gcm":{"custom_field":{"text":"Hello"}}}}' |
    grep -o '"id":"[^"]*"' | head -n 1 | cut -d'"' -f4)
memory() { awk '/^VmRSS/ {print $2}' "/proc/${processes[serve]}/status"; }

# measure NAME: adds the memory in KiB and the processor time of so many seconds, as a share of a core, to a series.
measure() {
    local before
    before=$(cpu_ticks serve)
    sleep "$seconds"
    awk -v memory="$(memory)" -v ticks="$(($(cpu_ticks serve) - before))" -v hertz="$(getconf CLK_TCK)" -v seconds="$seconds" \
        'BEGIN {printf "%d %.2f\n", memory, 100 * ticks / hertz / seconds}' >>"$work/$1.series"
}

for round in $(seq "$rounds"); do
    # A new server, since memory that was used once is kept.
    start_server serve LOG_LEVEL=info KAKAO_API_URL="$SANDBOX_URL" KAKAO_CA_CERTIFICATE_FILE="$SANDBOX_CERTIFICATE"
    wait_ready serve
    measure closed
    : >"$work/pages.log"
    python3 Benchmarks/pages.py "$(url serve)" "$pages" "$id" >"$work/pages.log" 2>&1 &
    client=$!
    until grep -q open "$work/pages.log"; do
        kill -0 "$client" 2>/dev/null || fail "the pages could not be opened: $(tail -n 3 "$work/pages.log")"
        sleep 0.2
    done
    sleep 1
    measure open
    kill -TERM "$client"
    wait "$client" || fail "requests of pages failed: $(tail -n 3 "$work/pages.log")"
    echo "round $round: closed $(last closed 1) KiB and $(last closed 2) % of a core, $pages pages open $(last open 1) KiB and $(last open 2) %"
    stop serve
done
cat <<TEXT

$pages open pages, half of them on a push with its event stream; medians of $rounds, each over $seconds s

| measure | target | measured |
| --- | --- | --- |
| memory of the server that they add | ≤ 20 MB | $(paste -d' ' "$work/closed.series" "$work/open.series" | awk '{printf "%.1f\n", ($3 - $1) * 1024 / 1000000}' | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}') MB |
| processor time that they add | ≤ 5 % of a core | $(paste -d' ' "$work/closed.series" "$work/open.series" | awk '{printf "%.1f\n", $4 - $2}' | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}') % |
| memory of the idle server before its first page | | $(awk "BEGIN {printf \"%.1f\", $resident * 1024 / 1000000}") MB |
TEXT
