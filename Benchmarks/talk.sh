# shellcheck shell=bash
# Functions shared by scripts/bench messages and scripts/compare: KakaoTalk messages through the sandbox. Sourced, not executed.
# They need $url, the URL of the server.
# shellcheck disable=SC2034,SC2154

# What Kakao allows an app in a day: 30,000 messages, 100 of each sender.
senders=300
each=100
messages=$((senders * each))
template='\"template\":{\"object_type\":\"text\",\"text\":\"Your order is on its way.\",\"link\":{\"web_url\":\"https://shop.example.com\"}}'
# The bodies of requests, in which {} is the sender: a message to all friends, and one to the sender's own chatroom.
friends=$(printf '{}%03d,' $(seq "$each"))
to_friends="{\\\"sender\\\":{},\\\"to\\\":{\\\"users\\\":[${friends%,}]},$template}"
to_sender="{\\\"sender\\\":{},\\\"to\\\":\\\"me\\\",$template}"

# Starts the sandbox, whose users are the senders with their friends. Sets $talk_settings, the settings of servers that send
# messages through it.
start_talk_sandbox() {
    start_sandbox --app-id 1
    jq --null-input --compact-output "{users: [range(1; $senders + 1) | . as \$sender |
        {user_id: ., friends: [range(1; $each + 1) | \$sender * 1000 + .]}]}" |
        curl -sSf "$sandbox/sandbox/talk/friends" --data @- >/dev/null
    talk_settings=(
        KAKAO_API_URL="$sandbox" KAKAO_AUTH_URL="$sandbox" KAKAO_APP_ID=1 KAKAO_REST_API_KEY=sandbox-rest-api-key
        KAKAO_CLIENT_SECRET=sandbox-client-secret ACCOUNTS_ENCRYPTION_KEY="$(head -c 32 /dev/urandom | base64)"
        TALK_REQUESTS_PER_SECOND=100000
    )
}

# Logs all senders in, at the sandbox and then at the server.
log_senders_in() {
    local sender token
    for sender in $(seq "$senders"); do
        printf 'next\nurl = "%s/sandbox/login"\ndata = "{\\"user_id\\":%s}"\nfail\nsilent\nshow-error\n' "$sandbox" "$sender"
    done | tail -n +2 >"$work/requests"
    curl --config "$work/requests" | jq --raw-output .access_token >"$work/access-tokens"
    sender=0
    while read -r token; do
        sender=$((sender + 1))
        cat <<CURL
next
url = "$url/v1/accounts/$sender/tokens"
request = PUT
header = "Authorization: Bearer $OPERATOR_KEY"
data = "refreshed_by=app&app_key=rest&access_token=$token&scope=friends%20talk_message"
fail
silent
show-error
CURL
    done <"$work/access-tokens" | tail -n +2 >"$work/requests"
    curl --config "$work/requests" >/dev/null || fail "the senders could not be logged in"
}

# Deletes the messages of earlier rounds, which count towards the quotas of the day, at the server and at the sandbox.
delete_messages() {
    sql --command 'TRUNCATE messages, message_receivers, message_quotas' --command CHECKPOINT >/dev/null
    curl -sSf --request DELETE "$sandbox/sandbox/talk/app" >/dev/null
    curl -sSf --request DELETE "$sandbox/sandbox/talk/messages" >/dev/null
}

# send_messages SERVER BODY NUMBER: creates that many messages of each sender, and waits until all $messages receivers have
# theirs. Prints the seconds from the first request to the last result, and the CPU time of the server and of the sandbox for
# each message in µs.
send_messages() {
    local server=$1 before kakao sender
    for sender in $(seq "$senders"); do
        for _ in $(seq "$3"); do
            printf 'next\nurl = "%s/v1/messages"\nheader = "Authorization: Bearer %s"\nheader = "Content-Type: application/json"\n' "$url" "$OPERATOR_KEY"
            printf 'data = "%s"\nfail\nsilent\nshow-error\noutput = "/dev/null"\n' "${2//\{\}/$sender}"
        done
    done | tail -n +2 >"$work/requests"
    before=$(cpu_ticks "$server")
    kakao=$(cpu_ticks sandbox)
    curl --parallel --parallel-max 32 --no-progress-meter --config "$work/requests" || fail "$server: messages were not created"
    sql >/dev/null --command "SET statement_timeout = '300s'" --command "DO \$\$ BEGIN
        WHILE EXISTS (SELECT FROM messages WHERE state <> 'done') LOOP
            COMMIT;
            PERFORM pg_sleep(0.1);
        END LOOP;
    END \$\$" || fail "$server: the messages were not sent within 300 s"
    [ "$(sql --command "SELECT count(*) FROM message_receivers WHERE state = 'sent'")" = "$messages" ] ||
        fail "$server: not all messages were sent"
    [ "$(curl -sSf "$sandbox/sandbox/talk/messages/totals" | jq '[.delivered[]] | add')" = "$messages" ] ||
        fail "$server: not all messages arrived once"
    sql --field-separator ' ' --command "
        SELECT extract(epoch FROM (SELECT max(finished_at) FROM message_receivers) - min(created_at)),
            $(($(cpu_ticks "$server") - before)), $(($(cpu_ticks sandbox) - kakao))
        FROM messages" |
        awk -v m="$messages" -v hertz="$(getconf CLK_TCK)" \
            '{printf "%.1f %.0f %.0f\n", $1, $2 * 1000000 / hertz / m, $3 * 1000000 / hertz / m}'
}
