# shellcheck shell=bash
# The benchmark of scripts/bench client. Sourced, not executed.
# shellcheck disable=SC2154

install_requirements nginx openssl
build --release http-benchmark

# Without session tickets, so that each handshake is a full one.
create_certificate
tls_port=$(free_port)
start_nginx nginx nginx PORT="$(free_port)" TLS_PORT="$tls_port" CERTIFICATE="$work/certificate.pem" KEY="$work/key.pem" TICKETS=off
wait_for nginx curl -sf --cacert "$work/certificate.pem" "https://localhost:$tls_port/healthz"

say "$rounds rounds on $(nproc) cores, $seconds seconds for each measurement; load before the run $(cut -d' ' -f1 /proc/loadavg)"
for round in $(seq "$rounds"); do
    "$programs/http-benchmark" connect "https://localhost:$tls_port/healthz" --ca-file "$work/certificate.pem" --seconds "$seconds" \
        >>"$work/ours.series"
    connect peer "127.0.0.1:$tls_port"
    echo "round $round: this client $(last ours 1)/s, openssl s_time $(last peer 1)/s"
done

say "100,000 connections"
read -r growth files <<<"$("$programs/http-benchmark" connect "https://localhost:$tls_port/healthz" --ca-file "$work/certificate.pem" --count 100000)"

say "Memory of an idle server, after a call to Kakao over https"
start_push_server
start_server idle LOG_LEVEL=info KAKAO_API_URL="$SANDBOX_URL" KAKAO_CA_CERTIFICATE_FILE="$SANDBOX_CERTIFICATE"
wait_ready idle
address=$(url idle)
curl -sf "$address/v1/push/register" -H "Authorization: KakaoAK $OPERATOR_KEY" \
    -d 'uuid=1&device_id=phone-1&push_type=gcm&push_token=APA91bEZ3fjwrKV2mxAFvZMC' >/dev/null || fail "the device was not registered"
sleep 5
awk '
    /^[0-9a-f]+-[0-9a-f]+ / {
        name = NF < 6 ? "other memory" : $6
        if (name == "[heap]" || name ~ /^\[anon/) name = "heap"
        else if (name ~ /^\[/) name = "stacks"
        else if (name ~ /push-server/) name = "push-server"
        else if (name ~ /lib(ssl|crypto|pq|yaml)/) { sub(/.*\//, "", name); sub(/[.-].*/, "", name) }
        else if (name ~ /\//) name = "other libraries"
    }
    /^Rss:/ { resident[name] += $2 }
    /^Private_(Clean|Dirty):/ { own[name] += $2 }
    END { for (name in resident) printf "| %s | %.1f | %.1f |\n", name, resident[name] * 1024 / 1e6, own[name] * 1024 / 1e6 }
' "/proc/${processes[idle]}/smaps" | sort -t'|' -k3 -rn >"$work/smaps"
total=$(awk -F'|' '{sum += $3} END {printf "%.1f", sum}' "$work/smaps")

cat <<TEXT

| measure | target | measured |
| --- | --- | --- |
| new TLS 1.3 connections/s to nginx, against openssl s_time | ≥ 0.70 | $(against ours peer) |
| growth of resident memory over 90,000 connections, after 10,000 | | $(awk "BEGIN {printf \"%.1f\", $growth / 1e6}") MB |
| growth of open files meanwhile | 0 | $files |
| resident memory, idle, with Kakao over https | ≤ 25 MB | $total MB |

| idle memory | resident, MB | of it private, MB |
| --- | --- | --- |
$(cat "$work/smaps")
TEXT
