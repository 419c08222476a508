# shellcheck shell=bash
# The benchmark of scripts/bench audiences. Sourced, not executed.
# shellcheck disable=SC2154

# shellcheck source=Benchmarks/pushes.sh
. Benchmarks/pushes.sh

users=500000

install_requirements nginx
start_push_server
dev_url=$DATABASE_URL
start_sink

# push SERIES AUDIENCE: sends a push and adds its users/s to the series.
push() {
    local id
    sql --command 'VACUUM push_batches, push_claims, push_parts, push_counts' --command CHECKPOINT
    id=$(post "$2")
    wait_done 120 "$id"
    sql --command "SELECT round(users / extract(epoch FROM finished_at - created_at)) FROM pushes WHERE id = '$id'" \
        >>"$work/$1.series"
}

# compare NAME COUNT STEP: compares a push to every STEPth of COUNT users with one to everyone.
compare() {
    say "$1: registering $2 users"
    create_database "$1"
    register_users "$2"
    serve "$port"
    seq "$3" "$3" "$2" >"$work/ids"
    api "$url/v1/audiences/stored" --header 'Content-Type: text/plain' --upload-file "$work/ids" --output "$work/audience"
    for ((round = 1; round <= rounds; round++)); do
        push "$1-everyone" '{"everyone":true}'
        push "$1-stored" '{"audience":"stored"}'
        say "$1, round $round: everyone $(last "$1-everyone" 1), stored $(last "$1-stored" 1) users/s"
    done
    stop serve
}

compare all_users "$users" 1
compare every_second $((2 * users)) 2
for name in all_users every_second; do
    printf '%-14s stored audience %9d users/s, everyone %9d users/s, ratio %s\n' "$name" \
        "$(median "$name-stored" 1)" "$(median "$name-everyone" 1)" \
        "$(ratio "$(median "$name-stored" 1)" "$(median "$name-everyone" 1)")"
done
