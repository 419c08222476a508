#!/usr/bin/env bash
# Checks that a push of advertising pauses when the hours for it end, and continues when they begin again.
#
# usage: scripts/advertising [--users N]
#
# Starts push-server dev with hours that end at the second full minute from now, and begin again a minute later. Ten seconds before
# they end, a push of advertising to USERS (1,000,000) users begins, at 20,000 users a second. Checks:
#
#   - After the end, nothing is sent apart from the requests in flight: the number of users sent to does not change from 1 s
#     after the end until the hours begin, and the push says when they do.
#   - The push continues within 5 s of their beginning, without anyone's help.
#   - Every user is reached exactly once.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

users=1000000
while [ $# -gt 0 ]; do
    case $1 in
        --users) users=${2:?a number} ;;
        -h | --help)
            print_help
            exit
            ;;
        *) fail "unknown argument $1; see --help" ;;
    esac
    shift 2
done

install_requirements python3
swift build --product push-server >/dev/null
swift build --product kakao-sandbox >/dev/null
program=$(swift build --show-bin-path)/push-server
work=$(mktemp -d)
# PostgreSQL runs as another user if this script runs as root.
chmod 755 "$work"

# Long enough for the start of the server and the upload of the audience.
ends_at=$(($(date +%s) / 60 * 60 + 120))
PUSHES_ADVERTISING_HOURS=$(TZ=Asia/Seoul date -d "@$((ends_at + 60))" +%H:%M)-$(TZ=Asia/Seoul date -d "@$ends_at" +%H:%M)
export PUSHES_ADVERTISING_HOURS
LOG_LEVEL=notice "$program" dev --directory "$work/local" --port 0 >"$work/log" 2>&1 &
server=$!
end() {
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM
is_up_or_dead() { [ -f "$work/local/dev.env" ] || ! kill -0 "$server" 2>/dev/null; }
wait_until 120 "push-server dev to start" is_up_or_dead
[ -f "$work/local/dev.env" ] || fail "push-server dev exited; the end of its log: $(tail -5 "$work/log")"

cat >"$work/advertising.py" <<'PYTHON'
"""Sends the push, and watches it over the end and the beginning of the hours."""
import json, ssl, sys, time, urllib.request

values = dict(line.strip().removeprefix("export ").split("=", 1) for line in open(sys.argv[1]) if "=" in line)
values = {name: value.strip("'\"") for name, value in values.items()}
users, end = int(sys.argv[2]), int(sys.argv[3])
begin = end + 60
trust = ssl.create_default_context(cafile=values["SANDBOX_CERTIFICATE"])
failures = []


def check(condition, text):
    if not condition:
        failures.append(text)


def call(url, body=None, method=None, kind="application/json"):
    request = urllib.request.Request(url, data=body.encode() if body is not None else None, method=method)
    if url.startswith(values["SERVER_URL"]):
        request.add_header("Authorization", "Bearer " + values["OPERATOR_KEY"])
    if body is not None:
        request.add_header("Content-Type", kind)
    with urllib.request.urlopen(request, timeout=60, context=trust if url.startswith("https") else None) as response:
        return response.read().decode()


def show():
    return json.loads(call(push))


def wait_until(limit, what, condition):
    last = time.monotonic() + limit
    while not condition():
        if time.monotonic() > last:
            sys.exit(f"timed out waiting for {what}")
        time.sleep(0.05)


def sleep_until(when):
    time.sleep(max(0, when - time.time()))


ids = "".join(f"{number}\n" for number in range(1, users + 1))
call(values["SERVER_URL"] + "/v1/audiences/all", ids, "PUT", "text/plain")
if time.time() > end - 10:
    sys.exit("this machine took too long to start the server and to store the audience")
sleep_until(end - 10)
push = values["SERVER_URL"] + "/v1/pushes/" + json.loads(call(values["SERVER_URL"] + "/v1/pushes", json.dumps({
    "audience": {"audience": "all"}, "skip_unknown": False, "users_per_second": 20_000, "kind": "advertising",
    "message": {"for_gcm": {"custom_field": {"marker": "advertising", "message": "(광고) Sale"}}},
})))["id"]
sleep_until(end - 1)
before = show()["users"]["sent"]
sleep_until(end + 1)
at_end = show()
sleep_until(begin - 1)
at_night = show()
wait_until(10, "the push to continue", lambda: show()["users"]["sent"] > at_night["users"]["sent"])
continued = time.time() - begin
wait_until(users / 20_000 + 120, "the push to end", lambda: show()["state"] == "done")
reached = json.loads(call(values["SANDBOX_URL"] + "/sandbox/reached"))["items"][0]
print(f"""
  sent 1 s before the end     {before} of {users} users
  1 s and 59 s after it       {at_end['users']['sent']}, {at_night['users']['sent']}; waits until {at_night['waits_until']}
  continued                   {continued:.2f} s after the hours had begun
  users reached               {reached['users']}, {reached['more_than_once']} of them more than once""")
check(before > 0, "nothing was sent before the end")
check(at_end["users"]["sent"] < users, "everything was sent before the end")
check(at_end["users"]["sent"] == at_night["users"]["sent"], "users were sent to after the end")
check(at_night["waits_until"] is not None, "the push does not say when it continues")
check(0 <= continued < 5, "the push continued late, or early")
check(reached["users"] == users and reached["more_than_once"] == 0, f"users were missed or reached twice: {reached}")
for text in failures:
    print("failed: " + text)
sys.exit(1 if failures else 0)
PYTHON

say "A push of advertising to $users users; the hours end at $(date -u -d "@$ends_at" +%T) UTC, for a minute"
python3 "$work/advertising.py" "$work/local/dev.env" "$users" "$ends_at"
