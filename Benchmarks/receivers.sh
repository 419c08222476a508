# shellcheck shell=bash
# Functions shared by the benchmarks with endpoints of webhooks. Sourced, not executed. They need $programs.
# shellcheck disable=SC2034,SC2154

# The URLs of the sandboxes that receive webhooks, by name.
declare -A receivers=()

# start_receivers NAME ...: starts a sandbox as receiver for each name.
start_receivers() {
    local name
    for name in "$@"; do
        start "$name" "$programs/kakao-sandbox" --port 0 --log-level error
        wait_for "$name" grep -q ready "$work/$name.out"
        receivers[$name]=$(grep -o 'http://[^ ]*' "$work/$name.out")
    done
}

# fail_requests NAME JSON: has the receiver delay or fail requests, as the sandbox's faults describe it.
fail_requests() { curl -sSf --data "{\"path\":\"/webhooks\",$2}" "${receivers[$1]}/sandbox/faults" >/dev/null; }

# received NAME AFTER: prints how many webhooks the receiver has got after so many, up to 1,000.
received() { curl -sSf "${receivers[$1]}/sandbox/webhooks?after=$2&limit=1000" | jq '.items | length'; }

# webhook_settings RECEIVER ...: sets $settings: those of a server whose endpoints are these receivers, the first one `default`.
webhook_settings() {
    local secret receiver list=
    secret=whsec_$(head -c 32 /dev/zero | base64)
    for receiver in "${@:2}"; do
        list+=",{\"name\":\"$receiver\",\"url\":\"${receivers[$receiver]}/webhooks\",\"secret\":\"$secret\"}"
    done
    settings=(WEBHOOKS_URL="${receivers[$1]}/webhooks" WEBHOOKS_SECRET="$secret" WEBHOOKS_ENDPOINTS="[${list#,}]")
}
