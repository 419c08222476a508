# shellcheck shell=bash
# While Kakao refuses the Admin key, operators see why, nothing is lost, and the push continues afterwards.
#
# usage: scripts/prove refusal [--seconds N] [--callbacks N] [--users N]
#
# Starts push-server dev and a push to USERS (100,000) users, at 1,000 users a second. After 10 s the
# sandbox answers every call with 401 and -401 for SECONDS (60). Meanwhile CALLBACKS (10,000) Link callbacks arrive. Then the
# sandbox accepts the key again, and the push is resumed. Checks:
#
#   - Every /readyz, twice a second, is 200.
#   - GET /v1/status says `halted`, with Kakao's error and a remedy, and `running` again at the end.
#   - Every callback is answered 200 within 3 s, as Kakao requires, and is stored once.
#   - Prometheus fires the alert SenderHalted, and no other one, until the key is accepted: the metrics, scraped every 5 s,
#     become a test of deploy/prometheus/alerts.yml for promtool.
#   - Every user of the push is reached exactly once.
#
# Prints the counts and latencies, and exits with 1 if a check fails. Needs promtool, as scripts/alerts does.

# shellcheck disable=SC2154
read_numbers seconds=60 callbacks=10000 users=100000 -- "$@"
install_requirements python3
find_promtool
# shellcheck source=scripts/servers.sh
. scripts/servers.sh
build push-server kakao-sandbox
LOG_LEVEL=notice start_dev

say "A push to $users users; Kakao refuses the key for $seconds s, while $callbacks callbacks arrive"
python3 scripts/proofs/refusal.py "$seconds" "$callbacks" "$users" "$PWD/deploy/prometheus/alerts.yml" "$work/alerts_test.yml" ||
    fail "see above"
say "Testing the alert rules with the metrics of this run"
"$promtool" test rules "$work/alerts_test.yml"
