# shellcheck shell=bash
# A push of advertising pauses when the hours for it end, and continues when they begin again.
#
# usage: scripts/prove advertising [--users N]
#
# Starts push-server dev with hours that end at the second full minute from now, and begin again a minute later. Ten seconds before
# they end, a push of advertising to USERS (1,000,000) users begins, at 20,000 users a second. Checks:
#
#   - After the end, nothing is sent apart from the requests in flight: the number of users sent to does not change from 1 s
#     after the end until the hours begin, and the push says when they do.
#   - The push continues within 5 s of their beginning, without anyone's help.
#   - Every user is reached exactly once.

# shellcheck disable=SC2154
read_numbers users=1000000 -- "$@"
install_requirements python3
# shellcheck source=scripts/servers.sh
. scripts/servers.sh
build push-server kakao-sandbox

# Long enough for the start of the server and the upload of the audience.
ends_at=$(($(date +%s) / 60 * 60 + 120))
PUSHES_ADVERTISING_HOURS=$(TZ=Asia/Seoul date -d "@$((ends_at + 60))" +%H:%M)-$(TZ=Asia/Seoul date -d "@$ends_at" +%H:%M)
export PUSHES_ADVERTISING_HOURS
LOG_LEVEL=notice start_dev

say "A push of advertising to $users users; the hours end at $(date -u -d "@$ends_at" +%T) UTC, for a minute"
python3 scripts/proofs/advertising.py "$users" "$ends_at"
